# A random intercept by site: lme4::lmer. lmer's optimiser stops early, so Fisher scoring of the two variances goes on
# from where it stopped.
source("common.R")
suppressPackageStartupMessages(library(lme4))
cohort <- read_table("cohort.csv")
n <- nrow(cohort)

trace <- function(A, B) sum(A * t(B))
scoring <- function(X, y, groups, variances, reml) {
  sizes <- colSums(groups)
  # The inverse of v1 groups groups' + v2 I.
  inverse <- function(v) (diag(n) - groups %*% (v[1] / (v[2] + sizes * v[1]) * t(groups))) / v[2]
  for (step in 1:25) {
    W <- inverse(variances)
    cov <- solve(crossprod(X, W %*% X))
    P <- W - W %*% X %*% cov %*% crossprod(X, W)
    M <- if (reml) P else W
    r <- P %*% y
    MK <- list(tcrossprod(M %*% groups, groups), M)
    score <- c(sum(crossprod(groups, r)^2) - sum(diag(MK[[1]])), sum(r^2) - sum(diag(M))) / 2
    information <- outer(1:2, 1:2, Vectorize(function(i, j) trace(MK[[i]], MK[[j]]) / 2))
    variances <- variances + solve(information, score)
  }
  check_solution(score, solve(information))
  W <- inverse(variances)
  cov <- solve(crossprod(X, W %*% X))
  beta <- cov %*% crossprod(X, W %*% y)
  r <- y - X %*% beta
  volume <- sum(log(variances[2] + sizes * variances[1])) + (n - ncol(groups)) * log(variances[2])
  llf <- -(volume + sum(r * (W %*% r)) + n * log(2 * pi)) / 2
  if (reml) llf <- llf - (as.numeric(determinant(crossprod(X, W %*% X))$modulus) - ncol(X) * log(2 * pi)) / 2
  list(params = setNames(as.vector(beta), colnames(X)), bse = standard_errors(cov), cov = square(cov),
       site_variance = variances[1], residual_variance = variances[2],
       variances_se = standard_errors(solve(information)), llf = llf,
       aic = -2 * llf + 2 * (ncol(X) + 2), bic = -2 * llf + log(n) * (ncol(X) + 2),
       site_effects = setNames(as.vector(variances[1] * crossprod(groups, W %*% r)), colnames(groups)))
}

mixed <- function(formula, reml) {
  fit <- lmer(update(formula, . ~ . + (1 | site)), cohort, REML = reml)
  groups <- outer(as.character(cohort$site), levels(cohort$site), "==") * 1
  colnames(groups) <- levels(cohort$site)
  start <- as.data.frame(VarCorr(fit))$vcov
  found <- scoring(model.matrix(formula, cohort), cohort[[all.vars(formula)[1]]], groups, start, reml)
  near <- c(fixef(fit) - found$params, as.numeric(logLik(fit)) - found$llf, AIC(fit) - found$aic, BIC(fit) - found$bic,
            start / c(found$site_variance, found$residual_variance) - 1, ranef(fit)$site[[1]] - found$site_effects,
            sqrt(diag(as.matrix(vcov(fit)))) - found$bse)
  if (max(abs(near)) > 1e-3) stop("lmer and Fisher scoring disagree by ", max(abs(near)))
  c(list(formula = paste(deparse(formula, 500), "+ (1 | site)"), n = n, lme4_off = max(abs(near))), found)
}
cases <- list()
for (formula in c(sbp ~ age + sex + bmi + treated, sbp ~ 1)) for (method in c("REML", "ML")) {
  cases[[paste(deparse(formula), method, sep = "/")]] <- mixed(formula, method == "REML")
}
write_values("mixed", "cohort.csv", list(cases = cases), "lme4")
