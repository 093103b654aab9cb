# Generalised linear models: stats::glm, MASS::glm.nb, sandwich.
source("common.R")
suppressPackageStartupMessages({ library(MASS); library(sandwich) })
cohort <- read_table("cohort.csv")
cohort$share <- cohort$events / cohort$trials
control <- glm.control(epsilon = 1e-300, maxit = 100)
right <- "age + sex + log(crp) + treated + stage"

# mu'' of the links, V' of the variances: observed = expected information where the link is canonical, and only there.
second <- list(
  identity = function(eta, mu) 0 * eta, log = function(eta, mu) mu, inverse = function(eta, mu) 2 / eta^3,
  "1/mu^2" = function(eta, mu) 0.75 * eta^-2.5, logit = function(eta, mu) mu * (1 - mu) * (1 - 2 * mu),
  probit = function(eta, mu) -eta * dnorm(eta), cloglog = function(eta, mu) exp(eta - exp(eta)) * (1 - exp(eta))
)
slope <- function(family, mu, theta) switch(sub("\\(.*", "", family),
  gaussian = 0, poisson = , quasipoisson = 1, binomial = , quasibinomial = 1 - 2 * mu, Gamma = 2 * mu,
  inverse.gaussian = 3 * mu^2, "Negative Binomial" = 1 + 2 * mu / theta
)
pieces <- function(fit) {
  X <- model.matrix(fit)
  eta <- fit$linear.predictors
  mu <- fit$fitted.values
  d <- fit$family$mu.eta(eta)
  V <- fit$family$variance(mu)
  w <- fit$prior.weights
  curved <- second[[fit$family$link]](eta, mu) / V - d^2 * slope(fit$family$family, mu, fit$theta) / V^2
  list(X = X, scores = X * (w * (fit$y - mu) * d / V), expected = crossprod(X, X * (w * d^2 / V)),
       observed = crossprod(X, X * (w * d^2 / V - w * (fit$y - mu) * curved)))
}

# All sandwiches are free of the dispersion.
sandwiches <- function(fit, part) {
  p <- ncol(part$X)
  n <- nrow(part$X)
  bread <- solve(part$observed)
  sums <- rowsum(part$scores, cohort$site)
  sites <- nrow(sums)
  hc0 <- bread %*% crossprod(part$scores) %*% bread
  clustered <- bread %*% crossprod(sums) %*% bread * sites / (sites - 1) * (n - 1) / (n - p)
  by_leverage <- lapply(c(HC2 = 1, HC3 = 2), function(power) {
    bread %*% crossprod(part$scores * (1 - hatvalues(fit))^(-power / 2)) %*% bread
  })
  if (isTRUE(all.equal(part$observed, part$expected))) {
    for (type in names(by_leverage)) {
      stopifnot(all.equal(square(by_leverage[[type]]), square(vcovHC(fit, type = type)), tolerance = 1e-9))
    }
  }
  list(cov_hc0 = square(hc0), cov_hc2 = square(by_leverage$HC2), cov_hc3 = square(by_leverage$HC3),
       bse_hc0 = standard_errors(hc0), bse_hc1 = standard_errors(hc0 * n / (n - p)),
       bse_site = standard_errors(clustered), bse_hc0_expected = standard_errors(sandwich(fit)),
       bse_site_expected = standard_errors(vcovCL(fit, cohort$site, type = "HC1")))
}

numbers <- function(fit) {
  part <- pieces(fit)
  check_solution(colSums(part$scores), solve(part$expected))
  shape <- summary(fit)
  c(list(params = coef(fit), bse = standard_errors(vcov(fit)), cov = square(vcov(fit)), deviance = fit$deviance,
         null_deviance = fit$null.deviance, dispersion = shape$dispersion, df_resid = fit$df.residual,
         df_null = fit$df.null, pearson_chi2 = sum(residuals(fit, "pearson")^2),
         statistics = unname(shape$coefficients[, 3]), pvalues = unname(shape$coefficients[, 4])),
    if (!grepl("quasi", fit$family$family)) {
      list(llf = as.numeric(logLik(fit)), aic = AIC(fit), bic = BIC(fit), df_llf = attr(logLik(fit), "df"))
    },
    sandwiches(fit, part))
}

# glm stops when the deviance stands still, and the coefficients have then half of the digits. So it starts again from
# what it found, 40 times. Links with a bound need a first start inside it: the mean of the outcome in every row.
polished <- function(formula, family, start = NULL) {
  fit <- suppressWarnings(glm(formula, family, cohort, control = control, start = start))
  for (again in 1:40) {
    fit <- suppressWarnings(glm(formula, family, cohort, control = control, start = coef(fit)))
  }
  fit
}

fitted_glm <- function(left, family, more = "", start = NULL) {
  formula <- as.formula(paste(left, "~", right, more))
  fit <- polished(formula, family, start)
  list(formula = paste(deparse(formula, 500), collapse = ""), numbers = fit)
}

# glm.nb stops early, too. Its two steps again, until both stand still.
negative_binomial <- function(left, more = "") {
  formula <- as.formula(paste(left, "~", right, more))
  fit <- glm.nb(formula, cohort)
  theta <- fit$theta
  for (round in 1:60) {
    step <- suppressWarnings(glm(formula, negative.binomial(theta), cohort, control = control, start = coef(fit)))
    fit$coefficients <- coef(step)
    theta <- theta.ml(step$y, step$fitted.values, limit = 200, eps = 1e-14)
  }
  fit$theta <- as.numeric(theta)
  fit$SE.theta <- attr(theta, "SE")
  step <- polished(formula, negative.binomial(fit$theta), coef(fit))
  changed <- c("coefficients", "fitted.values", "linear.predictors", "deviance", "weights", "residuals", "qr",
               "R", "family")
  fit[changed] <- step[changed]
  # glm.nb takes the null model at the same theta.
  fit$null.deviance <- polished(as.formula(paste(left, "~ 1", more)), negative.binomial(theta))$deviance
  llf <- sum(dnbinom(fit$y, size = fit$theta, mu = fit$fitted.values, log = TRUE))
  fit$twologlik <- 2 * llf
  fit$aic <- -2 * llf + 2 * fit$rank + 2
  list(formula = paste(deparse(formula, 500), collapse = ""), numbers = fit)
}

exposure <- "+ offset(log(years))"
fits <- list(
  "linear" = fitted_glm("sbp", gaussian),
  "linear/offset" = fitted_glm("sbp", gaussian, "+ offset(bmi)"),
  "logistic" = fitted_glm("readmitted", binomial),
  "logistic/offset" = fitted_glm("readmitted", binomial, "+ offset(0.1 * years)"),
  "poisson" = fitted_glm("visits", poisson),
  "poisson/exposure" = fitted_glm("visits", poisson, exposure),
  "gamma/log" = fitted_glm("cost", Gamma("log")),
  "gamma/inverse" = fitted_glm("cost", Gamma("inverse"), start = c(1 / mean(cohort$cost), rep(0, 7))),
  "gamma/log/exposure" = fitted_glm("cost", Gamma("log"), exposure),
  "inverse-gaussian/log" = fitted_glm("cost", inverse.gaussian("log")),
  "inverse-gaussian/inverse-squared" = fitted_glm("cost", inverse.gaussian("1/mu^2"),
                                                  start = c(1 / mean(cohort$cost)^2, rep(0, 7))),
  "quasi-poisson" = fitted_glm("los", quasipoisson),
  "quasi-poisson/exposure" = fitted_glm("visits", quasipoisson, exposure),
  "binomial-counts" = fitted_glm("cbind(events, trials - events)", binomial),
  "quasi-binomial-counts" = fitted_glm("cbind(events, trials - events)", quasibinomial),
  "binomial-counts/probit" = fitted_glm("cbind(events, trials - events)", binomial("probit")),
  "probit" = fitted_glm("readmitted", binomial("probit")),
  "probit/offset" = fitted_glm("readmitted", binomial("probit"), "+ offset(0.1 * years)"),
  "cloglog" = fitted_glm("readmitted", binomial("cloglog")),
  "cloglog/exposure" = fitted_glm("readmitted", binomial("cloglog"), exposure),
  "negative-binomial" = negative_binomial("los"),
  "negative-binomial/exposure" = negative_binomial("los", exposure)
)
cases <- lapply(fits, function(case) {
  fit <- case$numbers
  theta <- if (!is.null(fit$theta)) list(theta = fit$theta, theta_se = fit$SE.theta)
  c(list(formula = case$formula), theta, numbers(fit))
})
write_values("families", "cohort.csv", list(cases = cases), c("MASS", "sandwich"))
