# What is asked after a fit: tests, predictions, contrasts, robust errors, splines, vif, evaluation.
source("common.R")
suppressPackageStartupMessages({ library(sandwich); library(splines) })
cohort <- read_table("cohort.csv")
n <- nrow(cohort)
right <- "age + sex + bmi + log(crp) + treated + stage"
control <- glm.control(epsilon = 1e-300, maxit = 100)
linear <- function(right) eval(bquote(lm(.(as.formula(paste("sbp ~", right))), cohort)))
logistic <- function(right) {
  eval(bquote(suppressWarnings(glm(.(as.formula(paste("readmitted ~", right))), binomial, cohort, control = control))))
}
rate <- suppressWarnings(glm(visits ~ age + sex + treated + offset(log(years)), poisson, cohort, control = control))
fits <- list(linear = linear(right), logistic = logistic(right))

# --- the fit itself, and tests between models
shown <- function(fit) list(params = coef(fit), bse = standard_errors(vcov(fit)), llf = as.numeric(logLik(fit)),
                            aic = AIC(fit), bic = BIC(fit), df_resid = df.residual(fit))
shape <- summary(fits$linear)
models <- lapply(fits, shown)
models$linear <- c(models$linear, list(rsquared = shape$r.squared, rsquared_adj = shape$adj.r.squared,
                                       scale = shape$sigma^2, fvalue = shape$fstatistic[["value"]]))
against <- function(fit, smaller) {
  ratio <- 2 * as.numeric(logLik(fit) - logLik(smaller))
  df <- df.residual(smaller) - df.residual(fit)
  found <- list(lr = ratio, df = df, lr_p = pchisq(ratio, df, lower.tail = FALSE))
  if (inherits(fit, "glm")) {
    stopifnot(all.equal(ratio, anova(smaller, fit, test = "LRT")$Deviance[2], tolerance = 1e-10))
  } else found[c("f", "f_p")] <- anova(smaller, fit)[2, c("F", "Pr(>F)")]
  found
}
smaller <- c("age + sex + bmi + log(crp) + treated", "age + sex", "1")
comparisons <- lapply(list(linear = linear, logistic = logistic), function(make) {
  lapply(setNames(smaller, smaller), function(part) against(make(right), make(part)))
})
comparisons$larger <- list("treated * stage" = against(logistic("treated * stage"), logistic("treated + stage")))

# --- Wald tests: R b = r
row <- function(names, ...) {
  values <- setNames(rep(0, length(names)), names)
  replace(values, names(c(...)), c(...))
}
wald <- function(fit, cov, R, r) {
  off <- R %*% coef(fit) - r
  chi2 <- sum(off * solve(R %*% cov %*% t(R), off))
  q <- nrow(R)
  list(chi2 = chi2, df = q, p = pchisq(chi2, q, lower.tail = FALSE), f = chi2 / q,
       f_p = pf(chi2 / q, q, df.residual(fit), lower.tail = FALSE))
}
single <- function(fit, cov, R) {
  estimate <- sum(R * coef(fit))
  se <- sqrt(sum(R * (cov %*% R)))
  t <- inherits(fit, "lm") && !inherits(fit, "glm")
  wide <- se * if (t) qt(0.975, df.residual(fit)) else qnorm(0.975)
  ratio <- estimate / se
  p <- 2 * if (t) pt(-abs(ratio), df.residual(fit)) else pnorm(-abs(ratio))
  list(estimate = estimate, se = se, statistic = ratio, p = p, lower = estimate - wide, upper = estimate + wide)
}
tests <- lapply(fits, function(fit) {
  names <- names(coef(fit))
  terms <- attr(model.matrix(fit), "assign")
  by <- function(cov) list(
    "treated = 0" = wald(fit, cov, rbind(row(names, treated = 1)), 0),
    "stageII = stageIII" = wald(fit, cov, rbind(row(names, stageII = 1, stageIII = -1)), 0),
    "age = 0.02, sexM = treated" =
      wald(fit, cov, rbind(row(names, age = 1), row(names, sexM = 1, treated = -1)), c(0.02, 0)),
    terms = lapply(setNames(1:6, attr(terms(fit), "term.labels")), function(term) {
      wald(fit, cov, diag(length(names))[terms == term, , drop = FALSE], 0)
    }),
    "t: stageIV - stageII" = single(fit, cov, row(names, stageIV = 1, stageII = -1)),
    "t: 10 age + treated" = single(fit, cov, row(names, age = 10, treated = 1))
  )
  list(classical = by(vcov(fit)), HC1 = by(vcovHC(fit, "HC1")))
})

# --- predictions
persons <- data.frame(age = c(50, 62, 80, 35), sex = c("F", "M", "F", "M"), bmi = c(22, 27.5, 31, 40),
                      crp = c(2, 5, 20, 60), treated = c(1, 0, 1, 0),
                      stage = c("I", "II", "IV", "III"), years = c(1, 2.5, 0.5, 3))
on_scale <- function(fit) {
  link <- predict(fit, persons, se.fit = TRUE)
  mean <- predict(fit, persons, type = "response", se.fit = TRUE)
  ends <- function(sign) unname(fit$family$linkinv(link$fit + sign * qnorm(0.975) * link$se.fit))
  list(linear = unname(link$fit), linear_se = unname(link$se.fit), mean = unname(mean$fit),
       mean_se = unname(mean$se.fit), mean_ci_lower = ends(-1), mean_ci_upper = ends(1))
}
confidence <- predict(fits$linear, persons, interval = "confidence", se.fit = TRUE)
prediction <- predict(fits$linear, persons, interval = "prediction")
predictions <- list(
  linear = list(mean = unname(confidence$fit[, 1]), mean_se = unname(confidence$se.fit),
                mean_ci_lower = unname(confidence$fit[, 2]), mean_ci_upper = unname(confidence$fit[, 3]),
                obs_ci_lower = unname(prediction[, 2]), obs_ci_upper = unname(prediction[, 3])),
  logistic = on_scale(fits$logistic), "poisson/exposure" = c(list(params = coef(rate)), on_scale(rate))
)

# --- contrasts. Levels in alphabetical order; R's Sum leaves out the last level, as statsmodels' does.
coded <- function(contrasts) {
  data <- cohort
  contrasts(data$stage) <- contrasts
  shown(lm(sbp ~ age + stage, data))
}
contrasts <- list("Treatment('III')" = coded(contr.treatment(levels(cohort$stage), base = 3)), Sum = coded("contr.sum"),
                  Poly = coded("contr.poly"), Helmert = coded("contr.helmert"))

# --- robust errors; those by site with few sites also by hand: CR2 with Satterthwaite's degrees of freedom
root <- function(A, power) with(eigen(A, symmetric = TRUE), vectors %*% (values^power * t(vectors)))
bias_reduced <- function(fit, groups) {
  X <- model.matrix(fit)
  M <- solve(crossprod(X))
  e <- residuals(fit)
  parts <- lapply(split(seq_len(n), groups), function(rows) {
    Xg <- X[rows, ]
    A <- root(diag(length(rows)) - Xg %*% M %*% t(Xg), -0.5)
    spread <- -X %*% M %*% t(Xg) %*% A %*% Xg %*% M  # (I - H)_g A X_g M, for every coefficient a column
    spread[rows, ] <- spread[rows, ] + A %*% Xg %*% M
    list(score = as.vector(crossprod(Xg, A %*% e[rows])), spread = spread)
  })
  cov <- M %*% Reduce(`+`, lapply(parts, function(part) tcrossprod(part$score))) %*% M
  df <- sapply(seq_len(ncol(X)), function(j) {
    G <- crossprod(sapply(parts, function(part) part$spread[, j]))
    sum(diag(G))^2 / sum(G^2)
  })
  stopifnot(all.equal(square(cov), square(vcovCL(fit, groups, type = "HC2")), tolerance = 1e-10))
  list(bse_cr2 = standard_errors(cov), df_cr2 = df)
}
robust <- lapply(c(fits, list("poisson/exposure" = rate)), function(fit) {
  found <- lapply(setNames(nm = c("HC0", "HC1", "HC2", "HC3")), function(type) {
    list(bse = standard_errors(vcovHC(fit, type)), cov = square(vcovHC(fit, type)))
  })
  found$site <- list(bse = standard_errors(vcovCL(fit, cohort$site, type = "HC1")), groups = nlevels(cohort$site))
  found$ward <- list(bse = standard_errors(vcovCL(fit, cohort$ward, type = "HC1")), groups = nlevels(cohort$ward))
  c(list(params = coef(fit)), found)
})
small <- lm(sbp ~ age + treated, cohort)
robust[["linear/few"]] <- c(list(formula = "sbp ~ age + treated", params = coef(small)),
                            bias_reduced(small, cohort$site))
robust[["linear/wards"]] <- c(list(formula = "sbp ~ age + treated", params = coef(small)),
                              bias_reduced(small, cohort$ward))

# --- splines and other columns with a state
at <- c(20, 25, 37.5, 50, 61, 70, 85, 92, 97)
spline <- function(make, inside = at) {
  columns <- make(cohort$age)
  fit <- lm(cohort$sbp ~ columns + cohort$sex)
  list(sums = unname(colSums(columns)), squares = unname(colSums(columns^2)), at = inside,
       columns = square(predict(columns, inside)), params = unname(coef(fit)), bse = standard_errors(vcov(fit)),
       deviance = deviance(fit), knots = I(as.numeric(attr(columns, "knots"))),
       boundary = unname(attr(columns, "Boundary.knots")))
}
within <- at[at >= 25 & at <= 92]
knots <- c(50, 60, 70)
ends <- c(25, 92)
splines <- list(
  "bs(age, knots=(50, 60, 70), boundary=(25, 92))" =
    spline(function(x) bs(x, knots = knots, Boundary.knots = ends), within),
  "bs(age, knots=(50, 60, 70), degree=2, boundary=(25, 92))" =
    spline(function(x) bs(x, knots = knots, degree = 2, Boundary.knots = ends), within),
  "bs(age, df=4)" = spline(function(x) bs(x, df = 4), within),
  "bs(age, df=6)" = spline(function(x) bs(x, df = 6), within),
  "ns(age, knots=(50, 60, 70), boundary=(25, 92))" = spline(function(x) ns(x, knots = knots, Boundary.knots = ends)),
  "ns(age, knots=(50, 60, 70), boundary=(35, 85))" =
    spline(function(x) ns(x, knots = knots, Boundary.knots = c(35, 85))),
  "ns(age, df=4)" = spline(function(x) ns(x, df = 4)),
  "poly(age, 3)" = spline(function(x) poly(x, 3))
)

# --- variance inflation: by column of the design (statsmodels), by term of the covariance (as car::vif)
inflation <- function(fit) {
  X <- model.matrix(fit)[, -1]
  R <- cov2cor(vcov(fit)[-1, -1])
  terms <- attr(model.matrix(fit), "assign")[-1]
  by_term <- sapply(unique(terms), function(term) {
    mine <- terms == term
    det(R[mine, mine, drop = FALSE]) * det(R[!mine, !mine, drop = FALSE]) / det(R)
  })
  list(columns = diag(solve(cor(X))), gvif = setNames(by_term, attr(terms(fit), "term.labels")),
       df = as.vector(table(terms)))
}
vif <- lapply(fits, inflation)

# --- evaluation of the logistic model on the same rows
evaluation <- function(score, y) {
  cases <- score[y == 1]
  others <- score[y == 0]
  wins <- outer(cases, others, ">") + outer(cases, others, "==") / 2
  delong <- var(rowMeans(wins)) / length(cases) + var(colMeans(wins)) / length(others)
  logit <- qlogis(score)
  slope <- glm(y ~ logit, binomial, control = glm.control(epsilon = 1e-15))
  shift <- glm(y ~ offset(logit), binomial, control = glm.control(epsilon = 1e-15))
  list(auc = mean(wins), auc_se_delong = sqrt(delong), brier = mean((y - score)^2),
       calibration_slope = coef(slope)[[2]], calibration_intercept = coef(slope)[[1]],
       calibration_in_the_large = coef(shift)[[1]])
}
rough <- logistic("age + treated")
north <- cohort$site == "north"
score <- fitted(rough)
write_values("after_fit", "cohort.csv", list(
  formula = right, models = models, comparisons = comparisons, tests = tests, persons = persons,
  predictions = predictions, contrasts = contrasts, robust = robust, splines = splines, vif = vif,
  evaluation = list(formula = "readmitted ~ age + treated", params = coef(rough),
                    all = evaluation(score, cohort$readmitted),
                    north = evaluation(score[north], cohort$readmitted[north]))
), c("sandwich", "splines"))
