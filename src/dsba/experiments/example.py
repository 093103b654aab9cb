"""The commented file that ``dsba compare --example`` prints."""

EXAMPLE = """\
# An experiment for `dsba compare`. Every combination of data, problem, network, split, method and seed is a run.
# Only [[data]], [[problem]] and [[method]] are needed; the other values shown are examples, defaults in brackets.

title = "DSBA against EXTRA, two networks"
seeds = [0, 1, 2]              # [0]; with several, figures show the median and a band
splits = ["random"]            # ["random"]; "label" sorts by label: every node sees another part of the world
axes = ["passes", "doubles_max"]  # of the figures; also nominal_passes, rounds, bytes_max, seconds
# metrics = ["gap", "consensus"]  # of the figures [gap; or auc, test_auc, distance]; also residual

[stop]
max_passes = 30                # [60]
gap_tol = 1e-8                 # [none] relative gap, where there is an objective
# tol = 1e-8                   # [none] relative residual, everywhere
# max_seconds, max_doubles, max_rounds  # [none] further budgets
record_every = 1               # [1] passes between two records
record_first = 0.0625          # [0.0625] passes before the first record; the distance then doubles

[tune]                         # for methods with step_size = "tune"
passes = 20                    # [max_passes] of the search; the best is verified at the budget of the run
# seeds = [0, 1, 2]            # [the first seed] to judge by

[[data]]
name = "breast-cancer"         # embedded; or a name in $DSBA_DATA or fetched (`dsba data list`); or a LIBSVM file
# label = "breast cancer"      # shown in figures
# test = "a9a.t"               # [the file beside it that ends in .t, if any]
# positive = [1, 2, 3]         # the classes that are +1 in a set of more than two, or "half"

[[problem]]
operator = "logistic"          # ridge, logistic, auc, squared-hinge, huber, poisson
lam = 0.001                    # [1/(10 Q)]
# regularize = "all"           # ["weights"] with "all", AUC's a, b and theta, too

[[network]]
graph = "random"               # random, ring, path, star, complete, grid; or edges = "file of node pairs"
n_nodes = 10                   # [10]
p = 0.4                        # [0.4] of "random"
seed = 0                       # [0] of "random"
mixing = "laplacian"           # ["laplacian"] or "metropolis"

[[network]]
graph = "ring"
n_nodes = 10

[[method]]
algorithm = "dsba"             # see `dsba.algorithms.names()`
step_size = "tune"             # ["tune"], "auto" or another rule's name, or a number
# max_passes = 60              # [that of stop] a budget of its own; also max_seconds, max_doubles, max_rounds
# communication = "sparse"     # ["dense"]; the same iterates, sent as sparse differences (dsba and dsa)

[[method]]
algorithm = "dsba"
label = "DSBA, full table"
table = "full"                 # an option of the algorithm
step_size = "auto"

[[method]]
algorithm = "extra"
"""
