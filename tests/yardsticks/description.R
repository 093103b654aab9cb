# Table 1: counts, sums, quantiles, standardised mean differences, histograms. Of gaps.csv, which has empty cells.
source("common.R")
gaps <- read.csv("gaps.csv", stringsAsFactors = TRUE, na.strings = "")
numbers <- c("age", "bmi", "crp", "sbp", "years", "los", "visits", "cost", "time")
factors <- c("sex", "smoker", "stage", "severity", "score", "treated", "died")
probabilities <- c(0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)

of_number <- function(x) {
  known <- x[!is.na(x)]
  at <- function(type) unname(quantile(known, probabilities, type = type))
  list(n = length(known), missing = sum(is.na(x)), sum = sum(known), mean = mean(known), sd = sd(known),
       min = min(known), max = max(known), quantiles_type7 = at(7), quantiles_type1 = at(1))
}
of_factor <- function(x) {
  counts <- table(x)
  list(n = sum(!is.na(x)), missing = sum(is.na(x)), counts = as.list(counts),
       percent = as.list(100 * prop.table(counts)))
}
described <- function(rows) c(
  list(rows = nrow(rows)), lapply(rows[numbers], of_number), lapply(rows[factors], of_factor)
)

# Numbers: the difference of means over the root of the mean variance. Factors: Yang and Dalton's distance, which for
# two levels is the difference of shares over the root of the mean of p (1 - p).
distance <- function(x, group) {
  known <- split(x[!is.na(x)], group[!is.na(x)])
  if (is.numeric(x)) return((mean(known[[2]]) - mean(known[[1]])) / sqrt((var(known[[1]]) + var(known[[2]])) / 2))
  shares <- lapply(known, function(part) as.vector(prop.table(table(part)))[-1])
  spread <- lapply(shares, function(p) diag(p, length(p)) - tcrossprod(p))
  off <- shares[[2]] - shares[[1]]
  sqrt(sum(off * solve((spread[[1]] + spread[[2]]) / 2, off)))
}

# No value lies on a break.
breaks <- list(age = seq(24.5, 94.5, by = 5), bmi = seq(15.95, 43.95, by = 2), los = seq(-0.5, 49.5, by = 5))
histogram <- function(name) {
  known <- gaps[[name]][!is.na(gaps[[name]])]
  stopifnot(range(known) > min(breaks[[name]]), range(known) < max(breaks[[name]]))
  list(breaks = breaks[[name]], counts = as.vector(table(cut(known, breaks[[name]]))))
}

compared <- c(numbers, setdiff(factors, "treated"))
binary <- transform(gaps, died = factor(died))
write_values("description", "gaps.csv", list(
  probabilities = probabilities,
  all = described(gaps), by_treated = lapply(split(gaps, gaps$treated), described),
  by_site = lapply(split(gaps, gaps$site), described),
  smd_by_treated = sapply(compared, function(name) distance(binary[[name]], gaps$treated)),
  histograms = lapply(setNames(nm = names(breaks)), histogram)
))
