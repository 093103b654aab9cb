# The tables: 500 invented patients at five sites of unequal sizes, and a small table for formulas. Nobody is in them.
set.seed(20180625)
sizes <- c(coast = 97, east = 112, north = 64, south = 88, west = 139)
n <- sum(sizes)
site <- rep(names(sizes), sizes)
effect <- c(coast = 0.5, east = -0.3, north = 0.1, south = -0.6, west = 0.25)[site]
between <- function(x, low, high) pmin(pmax(x, low), high)
draw <- function(levels, weights) levels[apply(weights, 1, function(w) sample(length(levels), 1, prob = w))]

age <- between(round(rnorm(n, 62, 12)), 25, 92)
sex <- sample(c("F", "M"), n, replace = TRUE, prob = c(0.47, 0.53))
bmi <- between(round(rnorm(n, 27 + effect, 4.5), 1), 16, 48)
crp <- pmax(round(exp(rnorm(n, 1.6 + 0.01 * (age - 62), 0.8)), 1), 0.2)
smoker <- ifelse(runif(n) < 0.28 + 0.05 * (sex == "M"), "yes", "no")
stage <- sample(c("I", "II", "III", "IV"), n, replace = TRUE, prob = c(0.3, 0.32, 0.24, 0.14))
treated <- rbinom(n, 1, plogis(-0.2 + 0.015 * (age - 62) + 0.3 * effect))
level <- c(I = 0, II = 0.25, III = 0.6, IV = 1.1)[stage]
risk <- 0.02 * (age - 62) + 0.15 * (sex == "M") + 0.2 * log(crp) + level - 0.45 * treated + 0.3 * effect

sbp <- round(rnorm(n, 132 + 0.35 * (age - 62) + 0.6 * (bmi - 27) - 4 * treated + 6 * effect, 14))
years <- round(runif(n, 0.3, 4), 2)
los <- rnbinom(n, size = 1.8, mu = exp(1.1 + 0.5 * risk))
cost <- round(rgamma(n, shape = 3, rate = 3 / exp(1.6 + 0.4 * risk)), 3) + 0.25
readmitted <- rbinom(n, 1, plogis(-1 + 0.8 * risk))
trials <- 1 + rbinom(n, 11, 0.5)
events <- rbinom(n, trials, plogis(-0.8 + 0.4 * risk + rnorm(n, 0, 0.5)))
visits <- rpois(n, years * exp(0.2 + 0.3 * risk))
event <- (rexp(n) / (exp(risk) / 1500))^(1 / 1.2) * 5
leaving <- pmin(runif(n, 200, 1900), 1460)
time <- pmax(5 * ceiling(pmin(event, leaving) / 5), 5)
died <- as.integer(event <= leaving)
score <- draw(c("high", "low", "middle"), cbind(1, exp(0.4 - 0.7 * risk), exp(0.3 - 0.2 * risk + 0.3 * treated)))
severity <- cut(0.9 * risk + rlogis(n), c(-Inf, -0.3, 1.1, Inf), labels = c("mild", "moderate", "severe"))
ward <- paste0(substr(site, 1, 1), sample(1:4, n, replace = TRUE))

cohort <- data.frame(site, ward, age, sex, bmi, crp, sbp, smoker, stage, treated, years, los, visits, cost, readmitted,
                     events, trials, time, died, score, severity)[sample(n), ]
write.csv(cohort, "cohort.csv", row.names = FALSE, quote = FALSE)

# The same patients with empty cells, for Table 1.
gaps <- cohort
for (name in c("bmi", "crp", "smoker", "stage", "sbp")) gaps[sample(n, sample(8:40, 1)), name] <- NA
gaps[gaps$site == "north" & runif(n) < 0.3, "crp"] <- NA
write.csv(gaps, "gaps.csv", row.names = FALSE, quote = FALSE, na = "")

# 60 rows, all combinations of the levels, for formulas.
small <- expand.grid(a = c("a1", "a2", "a3"), b = c("b1", "b2"), g = c("c", "d", "e", "f", "h"), k = 1:2)
small$k <- NULL
rows <- nrow(small)
small <- transform(small, x = round(rnorm(rows, 3, 1), 2), z = round(rexp(rows, 0.5) + 0.1, 2),
                   w = round(runif(rows, -1, 1), 3), m = sample(1:12, rows, replace = TRUE),
                   y = round(rnorm(rows, 10, 2), 2))
write.csv(small[sample(rows), ], "small.csv", row.names = FALSE, quote = FALSE)
