"""The reader as a registered model."""

from noisyir.readers.task import reader_of
from noisyir.registry.kinds import OF_TRANSFORMERS, Kind

_ASKED = {"question": "Who wrote Faust?", "passage": "Faust is a play by Goethe."}
READER = Kind(
    name="noisyir-reader",
    kept="reader",
    folder="reader",
    about="Extractive readers trained by noisyir: question and passage in, the best span and its score out.",
    example=([_ASKED], {"max_answer_len": 30, "stride": 128}),
    usage="""answers = model.predict([{"question": "Who wrote Faust?", "passage": "Faust is a play by Goethe."}])
answers[0]["answer"], answers[0]["score"]  # of several passages, the highest score is the answer""",
    measure="F1",
    requirements=OF_TRANSFORMERS,
    limits="It always names a span: it was not trained to say that a passage holds no answer.",
    start=lambda exp: f"a span reader from {reader_of(exp).init.weights}",
    home=__file__,
)
