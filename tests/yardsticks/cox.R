# Cox: survival::coxph, cox.zph, basehaz, survfit.
source("common.R")
suppressPackageStartupMessages(library(survival))
cohort <- read_table("cohort.csv")
source("grids.R")

right <- "age + sex + bmi + log(crp) + treated + stage"
control <- coxph.control(eps = 1e-14, toler.chol = 1e-15, iter.max = 100)
persons <- data.frame(age = c(50, 62, 80), sex = c("F", "M", "F"), bmi = c(22, 27.5, 31), crp = c(2, 5, 20),
                      treated = c(1, 0, 1), stage = c("I", "II", "IV"), site = c("coast", "north", "west"))

numbers <- function(fit) {
  check_solution(colSums(as.matrix(residuals(fit, "score"))), if (is.null(fit$naive.var)) fit$var else fit$naive.var)
  list(params = coef(fit), bse = standard_errors(fit$var), cov = square(fit$var), llf_null = fit$loglik[1],
       llf = fit$loglik[2], aic = AIC(fit), bic = BIC(fit), likelihood_ratio = summary(fit)$logtest[["test"]],
       wald = fit$wald.test, score = fit$score, n = fit$n, events = fit$nevent)
}

cox <- function(data, strata, ties, more = "") {
  formula <- as.formula(paste("Surv(time, died) ~", right, if (strata == "site") "+ strata(site)", more))
  fit <- coxph(formula, data, ties = ties, control = control, x = TRUE, model = TRUE)
  fit$call$formula <- formula
  fit
}

robust <- function(data, strata, ties) {
  formula <- as.formula(paste("Surv(time, died) ~", right, if (strata == "site") "+ strata(site)"))
  fit <- coxph(formula, data, ties = ties, control = control, cluster = site)
  list(bse_site = standard_errors(fit$var), cov_site = square(fit$var))
}

zph <- function(fit, terms) {
  lapply(c(km = "km", rank = "rank", identity = "identity", log = "log"), function(transform) {
    table <- cox.zph(fit, transform = transform, terms = terms)$table
    lapply(split(table, rownames(table)), function(row) setNames(row, c("chi2", "df", "p")))[rownames(table)]
  })
}

# One person at a time, so that a stratified model gives the curve of the person's own site.
survival_of <- function(fit, person) {
  lapply(c(log = "log", "log-log" = "log-log"), function(kind) {
    at <- summary(survfit(fit, newdata = person, conf.type = kind), times = horizons, extend = TRUE)
    list(survival = at$surv, cumulative_hazard = at$cumhaz, std_err = at$std.err, lower = at$lower, upper = at$upper)
  })
}

baseline <- function(fit) {
  found <- basehaz(fit, centered = FALSE)
  found <- if (is.null(found$strata)) list(all = found) else split(found, found$strata)
  lapply(found, function(part) {
    keep <- c(TRUE, diff(part$hazard) > 0) & part$hazard > 0
    list(time = I(part$time[keep]), cumulative_hazard = I(part$hazard[keep]))
  })
}

cases <- list()
for (kind in names(times)) for (strata in c("site", "none")) for (ties in c("efron", "breslow")) {
  data <- with_times(kind)
  fit <- cox(data, strata, ties)
  found <- c(numbers(fit), robust(data, strata, ties))
  found$baseline <- baseline(fit)
  found$persons <- lapply(split(persons, seq_len(nrow(persons))), function(person) survival_of(fit, person))
  if (ties == "efron") {
    found$zph <- list(terms = zph(fit, TRUE), columns = zph(fit, FALSE))
    found$concordance <- fit$concordance[["concordance"]]
  }
  cases[[paste(kind, strata, ties, sep = "/")]] <- found
}
cases[["exact/site/efron/offset"]] <- numbers(cox(cohort, "site", "efron", "+ offset(0.02 * years)"))
write_values("cox", "cohort.csv", list(
  formula = paste("Surv(time, died) ~", right), grids = grids, persons = persons, horizons = horizons, cases = cases
), "survival")
