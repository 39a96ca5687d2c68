"""Reading comprehension from distant labels: answer spans, windows of long passages, samples, confidences."""
