"""Export of a transformer's folder for transformers' AutoModel; models with two towers get a folder for each."""

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

from noisyir.app.exports.sentence_transformers import write_model
from noisyir.base.errors import ConfigError
from noisyir.engine.store import Store
from noisyir.models.layout import read_layout

SUFFIX = "-huggingface"
_POOLED = {
    "cls": "the first token's vector",
    "last": "the last token's vector",
    "mean": "the mean of the tokens' vectors",
}
_OTHERS = ("modules.json", "config_sentence_transformers.json", "sentence_bert_config.json", "router_config.json")


def export(store: Store, name: str, target: Path, licence: str | None) -> str:
    """Write the encoder's weights, settings and tokenizer.

    Raises:
        ConfigError: If the model is static; transformers has no such architecture.
    """
    with TemporaryDirectory(dir=target.parent) as temporary:
        made = Path(temporary) / "model"
        write_model(store, name, made, licence)
        layout = read_layout(made)
        if layout.shape.backbone != "transformer":
            raise ConfigError("app.static_in_transformers", name=name)
        for side, tower in layout.towers.items():
            folder = target if layout.shape.shared else target / side
            folder.mkdir(parents=True, exist_ok=True)
            for file in tower.iterdir():
                if file.is_file() and file.name not in _OTHERS:
                    shutil.copyfile(file, folder / file.name)
        for about in ("README.md", "noisyir.json"):
            shutil.copyfile(made / about, target / about)
    pooled = _POOLED[layout.shape.pooling]
    return (
        f'{target}\nfrom transformers import AutoModel; model = AutoModel.from_pretrained("{target}")\n'
        f"A text's vector is {pooled}; noisyir.json has prefixes, lengths and similarity."
    )
