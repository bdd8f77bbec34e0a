"""A trainer of one's own: logistic regression in plain Python, reported to the ledger.

Learns which points lie above a line. Only the lines with ``report`` belong to the ledger.
"""

import json
import math
import random

from engine.client import Reporter, output_folder, read_plan

report = Reporter.from_environment()
config = read_plan()["config"]
rng = random.Random(config["seed"])
points = [(rng.uniform(-1, 1), rng.uniform(-1, 1)) for _ in range(200)]
labels = [float(y > 0.5 * x - 0.2) for x, y in points]
weights, steps = [0.0, 0.0, 0.0], config["maxSteps"]


def chance(x: float, y: float) -> float:
    """How likely the model finds it that a point lies above the line."""
    return 1 / (1 + math.exp(-(weights[0] + weights[1] * x + weights[2] * y)))


report.training(total_steps=steps)
for step in range(1, steps + 1):
    errors = [chance(*point) - label for point, label in zip(points, labels, strict=True)]
    sums = [(e, e * x, e * y) for e, (x, y) in zip(errors, points, strict=True)]
    gradient = [sum(column) / len(points) for column in zip(*sums, strict=True)]
    weights = [w - config["learningRate"] * g for w, g in zip(weights, gradient, strict=True)]
    loss = -sum(math.log(1 - abs(error)) for error in errors) / len(points)
    report.step(step, {"loss": loss, "grad_norm": math.hypot(*gradient)})

(output_folder() / "weights.json").write_text(json.dumps(weights))
report.model(output_folder() / "weights.json", step=steps)
report.completed()
