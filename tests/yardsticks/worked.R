# The table of docs/howto/models.md, and what R prints for the page's blocks of R that have an output below them.
source("common.R")
set.seed(36)
table <- "../../docs/assets/clinic.csv"

made <- function(rows = 600) {
  clinic <- data.frame(clinic = rep(c("aarhus", "bergen", "cork"), each = rows / 3), age = sample(30:84, rows, TRUE),
                       treated = sample(0:1, rows, TRUE), years = round(runif(rows, 0.5, 4), 2))
  site <- match(clinic$clinic, unique(clinic$clinic))
  risk <- 0.03 * (clinic$age - 60) - 0.5 * clinic$treated
  lifetime <- rexp(rows, exp(risk) / 900)
  clinic$time <- pmin(ceiling(lifetime), 1500)
  clinic$died <- as.integer(lifetime < 1500)
  clinic$falls <- rnbinom(rows, 2, mu = clinic$years * exp(risk))
  clinic$cost <- pmax(round(rgamma(rows, 2, 0.5 * exp(-risk)), 2), 0.01)
  clinic$severity <- c("mild", "moderate", "severe")[findInterval(risk + rlogis(rows), c(-1, 1)) + 1]
  clinic$sbp <- round(130 + c(-3, 0, 4)[site] + 5 * risk - c(0, 4, 8)[site] * clinic$treated + rnorm(rows, 0, 12), 1)
  clinic$readmitted <- rbinom(rows, 1, plogis(risk - 0.5))
  clinic$doses <- sample(3:8, rows, TRUE)
  clinic$taken <- rbinom(rows, clinic$doses, plogis(0.7 - 0.5 * risk))
  clinic
}
write.csv(made(), table, row.names = FALSE, quote = FALSE)

page <- paste(readLines("../../docs/howto/models.md"), collapse = "\n")
blocks <- regmatches(page, gregexpr("(?s)```r\n.*?```", page, perl = TRUE))[[1]]
blocks <- gsub("^```r\n|```$", "", blocks)
session <- new.env()
printed <- function(code) {
  lines <- capture.output(source(exprs = parse(text = code), local = session, print.eval = TRUE, echo = FALSE))
  paste(lines, collapse = "\n")
}
folder <- setwd("../../docs/assets")
outputs <- vapply(blocks, printed, "", USE.NAMES = FALSE)
setwd(folder)
found <- lapply(seq_along(blocks), function(n) list(code = blocks[n], output = outputs[n]))
write_values("worked", table, list(blocks = found), c("survival", "MASS", "nnet", "metafor", "lme4", "glmnet"))
