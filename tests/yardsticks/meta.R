# Meta-analysis: metafor::rma. The estimates are those of each site's own regression, and eight invented trials.
source("common.R")
suppressPackageStartupMessages(library(metafor))
cohort <- read_table("cohort.csv")

of_site <- function(fit, name) lapply(split(cohort, cohort$site), function(rows) {
  found <- fit(rows)
  c(estimate = coef(found)[[name]], variance = vcov(found)[[name, name]])
})
logistic <- function(rows) {
  glm(readmitted ~ age + treated, binomial, rows, control = glm.control(epsilon = 1e-15, maxit = 100))
}
linear <- function(rows) lm(sbp ~ age + bmi + treated, rows)
stacked <- function(found) as.data.frame(do.call(rbind, found))
studies <- list(
  "treated/logistic" = stacked(of_site(logistic, "treated")),
  "treated/linear" = stacked(of_site(linear, "treated")),
  "mean/linear" = stacked(of_site(function(rows) lm(sbp ~ 1, rows), "(Intercept)")),
  trials = data.frame(estimate = c(-0.89, -1.58, -0.14, -0.47, -1.37, 0.05, -0.31, -1.02),
                      variance = c(0.325, 0.194, 0.019, 0.056, 0.073, 0.013, 0.048, 0.11),
                      row.names = paste("trial", 1:8))
)

# metafor's I2 and H2 of random effects are made of tau2. Those of Higgins and Thompson are made of Q.
combined <- function(study, method) {
  control <- list(threshold = 1e-13, maxiter = 10000)
  fit <- rma(study$estimate, study$variance, method = method, control = control)
  k <- fit$k
  wide <- sqrt(fit$tau2 + fit$se^2)
  around <- predict(fit)
  adjusted <- if (method != "FE") {
    rma(study$estimate, study$variance, method = method, test = "knha", control = control)
  }
  list(estimate = fit$beta[[1]], se = fit$se, z = fit$zval, p = fit$pval, lower = fit$ci.lb, upper = fit$ci.ub,
       Q = fit$QE, Q_df = k - 1, Q_p = fit$QEp, tau2 = fit$tau2, tau2_se = fit$se.tau2, I2 = fit$I2, H2 = fit$H2,
       I2_of_Q = max(0, 100 * (fit$QE - (k - 1)) / fit$QE), weights = unname(weights(fit)),
       llf = as.numeric(logLik(fit)), prediction_z = c(around$pi.lb, around$pi.ub),
       prediction_t = fit$beta[[1]] + c(-1, 1) * qt(0.975, k - 2) * wide,
       hartung_knapp = if (method != "FE") c(se = adjusted$se, lower = adjusted$ci.lb, upper = adjusted$ci.ub))
}
cases <- lapply(studies, function(study) {
  c(list(estimates = setNames(study$estimate, rownames(study)), variances = setNames(study$variance, rownames(study))),
    lapply(c(fixed = "FE", DL = "DL", REML = "REML", ML = "ML"), function(method) combined(study, method)))
})
write_values("meta", "cohort.csv", list(
  formulas = list("treated/logistic" = "readmitted ~ age + treated", "treated/linear" = "sbp ~ age + bmi + treated",
                  "mean/linear" = "sbp ~ 1"),
  cases = cases
), "metafor")
