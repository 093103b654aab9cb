# Kaplan-Meier and log-rank: survival::survfit, survdiff.
source("common.R")
suppressPackageStartupMessages(library(survival))
cohort <- read_table("cohort.csv")
source("grids.R")

curve <- function(fit) {
  curves <- if (is.null(fit$strata)) list(all = fit) else lapply(seq_along(fit$strata), function(i) fit[i])
  if (!is.null(fit$strata)) names(curves) <- sub(".*=", "", names(fit$strata))
  curves
}
columns <- function(data, group) {
  found <- lapply(c(log = "log", loglog = "log-log"), function(kind) {
    curve(survfit(as.formula(paste("Surv(time, died) ~", group)), data, conf.type = kind))
  })
  mapply(function(log, loglog) {
    middle <- function(fit) unlist(quantile(fit, 0.5))
    list(time = log$time, n_risk = log$n.risk, n_event = log$n.event, n_censor = log$n.censor, survival = log$surv,
         std_err = log$std.err * log$surv, lower_log = log$lower, upper_log = log$upper,
         lower_loglog = loglog$lower, upper_loglog = loglog$upper,
         median = c(middle(log)[["quantile.50"]], middle(log)[["lower.50"]], middle(log)[["upper.50"]]),
         median_loglog = c(middle(loglog)[["lower.50"]], middle(loglog)[["upper.50"]]),
         n_risk_at = setNames(summary(log, times = c(0, horizons), extend = TRUE)$n.risk, c(0, horizons)))
  }, found$log, found$loglog, SIMPLIFY = FALSE)
}
log_rank <- function(data, group, rho) {
  test <- survdiff(as.formula(paste("Surv(time, died) ~", group)), data, rho = rho)
  degrees <- length(test$n) - 1
  # With strata observed and expected have a column a stratum.
  list(chi2 = test$chisq, df = degrees, p = pchisq(test$chisq, degrees, lower.tail = FALSE),
       n = as.vector(test$n), observed = rowSums(as.matrix(test$obs)), expected = rowSums(as.matrix(test$exp)),
       variance = square(test$var))
}
groups <- c("treated", "stage", "treated + strata(site)")
cases <- lapply(names(times), function(kind) {
  data <- with_times(kind)
  by <- c("1", "treated", if (kind != "exact") "stage")
  curves <- lapply(setNames(nm = by), function(group) columns(data, group))
  tests <- lapply(setNames(groups, groups), function(group) {
    list("log-rank" = log_rank(data, group, 0), peto = log_rank(data, group, 1))
  })
  list(curves = curves, tests = tests)
})
names(cases) <- names(times)
write_values("curves", "cohort.csv", list(grids = grids, cases = cases), "survival")
