"""Three species of iris: probabilities, what is confused with what, and whether to believe them."""

import numpy as np
from sklearn.datasets import load_iris

from cavity import EPClassifier
from cavity.plots.classes import left_out_classes

iris = load_iris(as_frame=True)
species = iris.target_names[iris.target]
rows = np.arange(0, 150, 2)  # half of them; the others are for testing
model = EPClassifier(n_starts=2).fit(iris.data.iloc[rows], species[rows])

others = np.setdiff1d(np.arange(150), rows)
probability = model.predict_proba(iris.data.iloc[others])  # columns in the order of model.classes_
accuracy = model.score(iris.data.iloc[others], species[others])
log_score = model.log_density(iris.data.iloc[others], species[others]).mean()

judged = left_out_classes(model)  # every training row predicted by the fit without it
confusion = judged.confusion  # observed down, predicted across
expected, right = judged.confidence, judged.accuracy  # the two agree where probabilities can be believed
