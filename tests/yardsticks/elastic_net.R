# Elastic net: glmnet and cv.glmnet at thresh 1e-14.
source("common.R")
suppressPackageStartupMessages(library(glmnet))
cohort <- read_table("cohort.csv")
right <- "age + sex + bmi + log(crp) + smoker + stage + treated + years"
X <- model.matrix(as.formula(paste("~", right)), cohort)[, -1]
n <- nrow(X)
spread <- function(x) sqrt(mean((x - mean(x))^2))  # with 1/n, as in glmnet

# Folds inside sites: the i-th row of a site (from 0) is in fold i mod 5 + 1.
folds <- ave(seq_len(n), cohort$site, FUN = function(rows) (seq_along(rows) - 1) %% 5 + 1)

mean_of <- list(gaussian = identity, binomial = plogis, poisson = exp)
curvature_of <- list(gaussian = function(mu) 1 + 0 * mu, binomial = function(mu) mu * (1 - mu), poisson = identity)

# glmnet leaves errors of about 1e-7. Newton's iteration on the coefficients that are not 0 goes on from where it
# stopped, and the KKT conditions of all coefficients are checked. glmnet divides a gaussian outcome by its spread s and
# lambda by s in both terms: in units of the outcome the quadratic term then has lambda / s. At alpha = 1 there is no
# difference.
polished <- function(start, y, family, lambda, alpha, scale) {
  Z <- cbind(1, sweep(X, 2, scale, "/"))
  ridge <- c(0, rep(lambda * (1 - alpha) / if (family == "gaussian") spread(y) else 1, ncol(X)))
  z <- start * c(1, scale)
  active <- c(TRUE, abs(z[-1]) > 1e-8)
  z[!active] <- 0
  signs <- c(0, sign(z[-1]))
  pull <- function(z) as.vector(crossprod(Z, y - mean_of[[family]](Z %*% z))) / n - ridge * z
  for (step in 1:20) {
    weights <- as.vector(curvature_of[[family]](mean_of[[family]](Z %*% z)))
    hessian <- crossprod(Z, Z * weights) / n + diag(ridge)
    z[active] <- z[active] + solve(hessian[active, active], (pull(z) - lambda * alpha * signs)[active])
  }
  off <- ifelse(active, abs(pull(z) - lambda * alpha * signs), pmax(abs(pull(z)) - lambda * alpha, 0))
  if (any(sign(z[-1]) != signs[-1]) || max(off) > 1e-10 * max(abs(pull(0 * z)))) stop("KKT conditions do not hold")
  z / c(1, scale)
}

path <- function(left, family, alpha, standardize) {
  y <- cohort[[left]]
  run <- function(f, ...) f(X, y, family = family, alpha = alpha, standardize = standardize, thresh = 1e-14,
                            maxit = 1e8, ...)
  lambda <- run(glmnet, nlambda = 25, lambda.min.ratio = 1e-3)$lambda
  fit <- run(glmnet, lambda = lambda)
  scale <- if (standardize) apply(X, 2, spread) else rep(1, ncol(X))
  rough <- rbind(fit$a0, as.matrix(fit$beta))
  fine <- sapply(seq_along(lambda), function(j) polished(rough[, j], y, family, fit$lambda[j], alpha, scale))
  off <- max(abs(rough - fine) * c(1, scale))
  if (off > 1e-5) stop("Newton's iteration left glmnet's solution: ", off)
  found <- list(formula = paste(left, "~", right), family = family, alpha = alpha, standardize = standardize,
                lambda = fit$lambda, intercept = fine[1, ], coefficients = t(fine[-1, ]), df = colSums(fine[-1, ] != 0),
                deviance_ratio = fit$dev.ratio, null_deviance = fit$nulldev, glmnet_off = off)
  if (standardize) {
    cv <- run(cv.glmnet, lambda = lambda, foldid = folds)
    found$cv <- list(cvm = unname(cv$cvm), cvsd = unname(cv$cvsd), lambda_min = cv$lambda.min,
                     lambda_1se = cv$lambda.1se)
  }
  found
}
outcomes <- c(gaussian = "sbp", binomial = "readmitted", poisson = "visits")
cases <- list()
for (family in names(outcomes)) for (alpha in c(1, 0.5)) for (standardize in c(TRUE, FALSE)) {
  name <- paste(family, alpha, if (standardize) "standardized" else "raw", sep = "/")
  cases[[name]] <- path(outcomes[[family]], family, alpha, standardize)
}
write_values("elastic_net", "cohort.csv", list(columns = colnames(X), folds = folds, cases = cases), "glmnet")
