"""The commented file that ``dsba compare --example`` prints."""

EXAMPLE = """\
# An experiment for `dsba compare`. Every combination of data, problem, network, split, method and seed is a run.
# Only [[data]], [[problem]] and [[method]] are needed; the other values shown are examples, defaults in brackets.

title = "DSBA against EXTRA, two networks"
seeds = [0, 1, 2]              # [0]; with several, figures show the median and a band
# band = "quartiles"           # [from the least to the largest]
splits = ["random"]            # ["random"]; "label" sorts by label: every node sees another part of the world;
                               # "stratified", "power:1.5" (sizes), "shards:2", "classes:2", "dirichlet:0.3" (alpha),
                               # "column:4" (a node per value), "nodes.npy" (node of each row)
axes = ["passes", "doubles_max"]  # of the figures; also nominal_passes, rounds, bytes_max, seconds, time
# metrics = ["gap", "consensus"]  # of the figures [gap; or auc, test_auc, distance]; also residual, accuracy, log_loss,
                               # loss, test_accuracy, test_log_loss, test_loss, "mine.py:function" of (z, X, y)

[stop]
max_passes = 30                # [60]
gap_tol = 1e-8                 # [none] relative gap, where there is an objective
# tol = 1e-8                   # [none] relative residual, everywhere
# max_seconds, max_doubles, max_rounds  # [none] further budgets
record_every = 1               # [1] passes between two records
record_first = 0.0625          # [0.0625] passes before the first record; the distance then doubles; or false

[tune]                         # for methods with step_size = "tune"
passes = 20                    # [max_passes] of the search; the best is verified at the budget of the run
# seeds = [0, 1, 2]            # [the first seed] to judge by

# [link]                       # of the axis "time": seconds / N + rounds x latency + 8 bytes / bandwidth
# latency = 0.02               # [0.02] seconds a round
# bandwidth = 1e8              # [1e8] bits a second into a node

[[data]]
name = "breast-cancer"         # embedded; or a name in $DSBA_DATA or fetched (`dsba data list`); or a LIBSVM file;
                               # or a .npz file with X and y, perhaps X_test and y_test
# normalize = false            # [true] rows of norm 1
# label = "breast cancer"      # shown in figures
# test = "a9a.t"               # [the file beside it that ends in .t, if any]
# positive = [1, 2, 3]         # the classes that are +1 in a set of more than two, or "half"

[[problem]]
operator = "logistic"          # ridge, logistic, auc, squared-hinge, huber, poisson
lam = 0.001                    # [1/(10 Q)]
# regularize = "all"           # ["weights"] with "all", AUC's a, b and theta, too
# intercept = true             # [false] a constant column that lambda leaves alone
# penalty = {name = "l1", strength = 0.01}    # [none] or "elastic-net" with l1_ratio, or "box" with lower and upper
# label = "weak penalty"       # shown in figures; networks may have one, too
# further keys are the operator's own numbers, such as delta = 0.5 of huber

[[network]]
graph = "random"               # random, ring, path, star, complete, grid; or edges = "file of node pairs"
n_nodes = 10                   # [10]
p = 0.4                        # [0.4] of "random"
seed = 0                       # [0] of "random"; "each" draws a graph for each of the seeds
mixing = "laplacian"           # ["laplacian"] or "metropolis", or "W.npy"
# drop = 0.1                   # [none] links that are down with this probability; one_way = true: each direction alone
# delay = 2                    # [none] rounds that a row is late; [0, 3] draws the delay of each message
# change = 0.3                 # [none] the probability of an edge in a round; graphs = ["a.edges", "b.edges"]: in turn
# compress = "4-bit"           # [none] or "top-10", "rand-10"; memory = false, pull = 0.5, link_seed = 1

[[network]]
graph = "ring"
n_nodes = 10

[[method]]
algorithm = "dsba"             # see `dsba.algorithms.names()`
step_size = "tune"             # ["tune"], "auto" or another rule's name, or a number
# grid = {step_size = [0.1, 1.0]}  # [the method's own] values to try when tuned, by option
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
