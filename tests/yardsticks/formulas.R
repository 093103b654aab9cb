# Design matrices of formulas from the documentation of R and of statsmodels, with the names of small.csv.
source("common.R")
library(splines)
small <- read_table("small.csv")
center <- function(x) x - mean(x)

intro <- "R, An Introduction to R, 11.1"
usage <- "R, ?formula"
book <- "R, documentation of the function"
sm <- "statsmodels, Fitting models using R-style formulas"
contr <- "statsmodels, Contrasts Overview"
anova <- "statsmodels, Interactions and ANOVA"

# As dsba spells it; as R spells it where that differs; what the documentation has; where.
formulas <- list(
  c("y ~ x", "", "y ~ x", intro),
  c("y ~ 1 + x", "", "y ~ 1 + x", intro),
  c("y ~ 0 + x", "", "y ~ 0 + x", intro),
  c("y ~ -1 + x", "", "y ~ -1 + x", intro),
  c("y ~ x - 1", "", "y ~ x - 1", intro),
  c("log(y) ~ x + z", "", "log(y) ~ x1 + x2", intro),
  c("y ~ poly(x, 2)", "", "y ~ poly(x,2)", intro),
  c("y ~ 1 + x + I(x**2)", "", "y ~ 1 + x + I(x^2)", intro),
  c("y ~ a", "", "y ~ A", intro),
  c("y ~ a + x", "", "y ~ A + x", intro),
  c("y ~ a * b", "", "y ~ A*B", intro),
  c("y ~ a + b + a:b", "", "y ~ A + B + A:B", intro),
  c("y ~ a / b", "", "y ~ A/B", intro),
  c("y ~ (a + b + g)**2", "", "y ~ (A + B + C)^2", intro),
  c("y ~ (a + b + g)^2", "", "y ~ (A + B + C)^2", intro),
  c("y ~ a * b * g - a:b:g", "", "y ~ A*B*C - A:B:C", intro),
  c("y ~ a * x", "", "y ~ A*x", intro),
  c("y ~ a / x", "", "y ~ A/x", intro),
  c("y ~ a / (1 + x) - 1", "", "y ~ A/(1 + x) - 1", intro),
  c("log(y) ~ a + log(x)", "", "log(y) ~ a + log(x)", usage),
  c("y ~ a + I(x + z)", "", "y ~ a + I(b+c)", usage),
  c("y ~ 1", "", "y ~ 1", usage),
  c("y ~ .", "", "y ~ .", usage),
  c("y ~ x:z", "", "a:b", usage),
  c("y ~ a:x", "", "a:b", usage),
  c("y ~ (x + z + w)**2", "", "(a+b+c)^2", usage),
  c("y ~ log1p(z) + sqrt(z) + exp(w) + abs(w)", "", "log1p(x), sqrt(x), exp(x), abs(x)", book),
  c("y ~ log2(z) + log10(x)", "", "log2(x), log10(x)", book),
  c("y ~ pmin(x, 3) + pmax(x, 3)", "", "pmin(5:1, pi), pmax(5:1, pi)", book),
  c("y ~ I(x > 3) + I(z <= 2)", "", "I(x > 3)", book),
  c("y ~ bs(x, df=4)", "bs(x, df = 4)", "bs(height, df = 5)", book),
  c("y ~ ns(x, df=3)", "ns(x, df = 3)", "ns(height, df = 5)", book),
  c("y ~ scale(x) + center(z)", "", "scale(x), scale(x, scale = FALSE)", book),
  c("y ~ x + z + C(g)", "x + z + g", "Lottery ~ Literacy + Wealth + C(Region)", sm),
  c("y ~ x + z + C(g) - 1", "x + z + g - 1", "Lottery ~ Literacy + Wealth + C(Region) -1", sm),
  c("y ~ x : z - 1", "", "Lottery ~ Literacy : Wealth - 1", sm),
  c("y ~ x * z - 1", "", "Lottery ~ Literacy * Wealth - 1", sm),
  c("y ~ C(m)", "factor(m)", "Lottery ~ C(Region)", sm),
  c("y ~ C(g, Treatment('e'))", "C(g, contr.treatment(5, base = 3))", "write ~ C(race, Treatment)", contr),
  c("y ~ C(g, Sum)", "C(g, contr.sum)", "write ~ C(race, Sum)", contr),
  c("y ~ C(g, Poly)", "C(g, contr.poly)", "write ~ C(readcat, Poly)", contr),
  c("y ~ C(a) * x + C(b)", "a * x + b", "S ~ C(E)*X + C(M)", anova),
  c("y ~ x + C(a) * C(b)", "x + a * b", "S ~ X + C(E)*C(M)", anova),
  c("log(y) ~ C(a, Sum) * C(b, Sum)", "C(a, contr.sum) * C(b, contr.sum)",
    "np.log(Days+1) ~ C(Duration, Sum)*C(Weight, Sum)", anova)
)
cases <- lapply(formulas, function(entry) {
  text <- if (nchar(entry[2])) sub("~.*", paste("~", entry[2]), entry[1]) else entry[1]
  design <- model.matrix(as.formula(text), small)
  list(formula = entry[1], r = text, documentation = entry[3], from = entry[4], columns = I(colnames(design)),
       sums = I(unname(colSums(design))), squares = I(unname(colSums(design^2))),
       by_row = I(unname(colSums(design * seq_len(nrow(design))))), rank = qr(design)$rank)
})
write_values("formulas", "small.csv", list(cases = cases), "splines")
