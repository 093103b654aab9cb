# Multinomial: nnet::multinom. Proportional odds: MASS::polr. Both stop early, so Newton's iteration with the exact
# observed information goes on from where they stopped. Standard errors are from that information.
source("common.R")
suppressPackageStartupMessages({ library(MASS); library(nnet) })
cohort <- read_table("cohort.csv")
right <- "age + sex + log(crp) + treated + stage"
X <- model.matrix(as.formula(paste("~", right)), cohort)
n <- nrow(X)

newton <- function(at, parts, theta) {
  for (step in 1:50) {
    found <- parts(theta)
    theta <- theta + solve(found$information, found$score)
  }
  found <- parts(theta)
  check_solution(found$score, solve(found$information), 1e-10)
  far <- max(abs(theta - at) / standard_errors(solve(found$information)))
  if (far > 1e-3) stop("Newton's iteration left the solution of the package: ", far)
  c(found, list(theta = theta, cov = solve(found$information)))
}

numbers <- function(found, y, parameters) {
  counts <- table(y)
  list(params = setNames(found$theta, parameters), bse = standard_errors(found$cov), cov = square(found$cov),
       llf = found$llf, llf_null = sum(counts * log(counts / n)), deviance = -2 * found$llf,
       aic = -2 * found$llf + 2 * length(found$theta), bic = -2 * found$llf + log(n) * length(found$theta),
       counts = as.list(counts))
}

# Parameters in the order of multinom's rows: all of the second class, then all of the third.
multinomial <- function(y) {
  classes <- levels(y)
  Y <- outer(as.character(y), classes[-1], "==") * 1
  p <- ncol(X)
  parts <- function(theta) {
    eta <- X %*% matrix(theta, p)
    P <- exp(eta) / (1 + rowSums(exp(eta)))
    blocks <- lapply(1:ncol(Y), function(i) {
      lapply(1:ncol(Y), function(j) crossprod(X, X * (P[, i] * ((i == j) - P[, j]))))
    })
    list(score = as.vector(crossprod(X, Y - P)), llf = sum(Y * eta) - sum(log1p(rowSums(exp(eta)))),
         information = do.call(rbind, lapply(blocks, function(row) do.call(cbind, row))))
  }
  fit <- multinom(as.formula(paste("y ~", right)), cbind(cohort, y = y), trace = FALSE, maxit = 5000, reltol = 1e-15)
  names <- outer(colnames(X), classes[-1], function(column, class) paste(class, column, sep = ":"))
  numbers(newton(as.vector(t(coef(fit))), parts, as.vector(t(coef(fit)))), y, as.vector(names))
}

# logit P(Y <= k) = zeta_k - x'beta, as in polr. Parameters: beta, then zeta.
ordinal <- function(y, method) {
  F <- list(logistic = plogis, probit = pnorm)[[method]]
  f <- list(logistic = dlogis, probit = dnorm)[[method]]
  slope <- list(logistic = function(u) dlogis(u) * (1 - 2 * plogis(u)), probit = function(u) -u * dnorm(u))[[method]]
  cuts <- nlevels(y) - 1
  Z <- X[, -1]
  k <- as.integer(y)
  upper <- cbind(-Z, outer(k, 1:cuts, "=="))
  lower <- cbind(-Z, outer(k - 1, 1:cuts, "=="))
  first <- k == 1
  last <- k == cuts + 1
  inside <- function(values, outside, fill) ifelse(outside, fill, values)
  parts <- function(theta) {
    a <- as.vector(upper %*% theta)
    b <- as.vector(lower %*% theta)
    P <- inside(F(a), last, 1) - inside(F(b), first, 0)
    fa <- inside(f(a), last, 0) / P
    fb <- inside(f(b), first, 0) / P
    G <- upper * fa - lower * fb
    H <- crossprod(upper, upper * inside(slope(a), last, 0) / P) -
      crossprod(lower, lower * inside(slope(b), first, 0) / P)
    list(score = colSums(G), llf = sum(log(P)), information = crossprod(G) - H)
  }
  fit <- polr(as.formula(paste("y ~", right)), cbind(cohort, y = y), method = method,
              control = list(reltol = 1e-15, maxit = 5000))
  at <- c(coef(fit), fit$zeta)
  numbers(newton(at, parts, unname(at)), y, names(at))
}

cases <- list(
  multinomial = c(list(formula = paste("score ~", right)), multinomial(cohort$score)),
  ordinal = c(list(formula = paste("severity ~", right)), ordinal(cohort$severity, "logistic")),
  "ordinal/probit" = c(list(formula = paste("severity ~", right)), ordinal(cohort$severity, "probit"))
)
write_values("classes", "cohort.csv", list(cases = cases), c("MASS", "nnet"))
