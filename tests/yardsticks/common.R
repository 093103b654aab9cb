# What all scripts share: reading a table, writing a JSON with 17 significant digits.

read_table <- function(name) read.csv(name, stringsAsFactors = TRUE)

# jsonlite prints at most 15 digits, which is not enough to get a double back.
json <- function(x, depth = 0) {
  items <- function(values, open, close) {
    gap <- if (depth < 3) paste0("\n", strrep(" ", depth + 1)) else ""
    end <- if (depth < 3) paste0("\n", strrep(" ", depth)) else ""
    paste0(open, gap, paste(values, collapse = paste0(",", if (depth < 3) gap else " ")), end, close)
  }
  quoted <- function(text) paste0('"', gsub("\n", "\\\\n", gsub('(["\\\\])', "\\\\\\1", text)), '"')
  if (is.null(x)) return("null")
  if (is.factor(x)) x <- as.character(x)
  if (is.matrix(x)) {
    return(items(apply(x, 1, function(row) json(I(unname(row)), depth + 9)), "[", "]"))
  }
  if (is.list(x) || length(names(x))) {
    values <- vapply(as.list(x), json, "", depth = depth + 1)
    if (length(names(x))) return(items(paste0(quoted(names(x)), ": ", values), "{", "}"))
    return(items(values, "[", "]"))
  }
  text <- if (is.character(x)) quoted(x)
  else if (is.logical(x)) tolower(as.character(x))
  else sprintf("%.17g", as.numeric(x))
  text[is.na(x) | (is.numeric(x) & !is.finite(x))] <- "null"
  if (length(x) == 1 && !inherits(x, "AsIs")) text else paste0("[", paste(text, collapse = ", "), "]")
}

write_values <- function(subject, table, values, packages = c()) {
  versions <- c(R = as.character(getRversion()), sapply(packages, function(p) as.character(packageVersion(p))))
  origin <- list(table = table, sha256 = digest::digest(file = table, algo = "sha256"), made_with = versions)
  cat(json(c(origin, values)), "\n", sep = "", file = paste0(subject, ".json"))
}

# A yardstick must stand at the solution. `score` and `covariance` belong to the same parameters. The Newton step
# that is left, in standard errors, must be rounding.
check_solution <- function(score, covariance, limit = 1e-9) {
  left <- max(abs(covariance %*% score) / sqrt(diag(covariance)))
  if (!is.finite(left) || left > limit) stop("not at the solution: a step of ", left, " standard errors is left")
}

square <- function(matrix) unname(as.matrix(matrix))
standard_errors <- function(covariance) unname(sqrt(diag(covariance)))
