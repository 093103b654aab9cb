# The times of the cohort, exact and on two grids. cox.R and curves.R take it in.
# A grid is the right ends of its intervals; a time goes to the end of its interval.
on_grid <- function(time, ends) ends[findInterval(time, ends, left.open = TRUE) + 1]

# Every interval is as short as the rule of minimum counts lets it be. From the left: an interval ends at a time if at
# least k rows left the risk set within it, and of the rows of all sites but one 0 or at least k, whichever site it is.
# What is left at the end joins the last interval.
grid_of_counts <- function(time, site, k = 3) {
  ends <- c()
  from <- 0
  fits <- function(counts) sum(counts) >= k && all(sum(counts) - counts == 0 | sum(counts) - counts >= k)
  for (end in sort(unique(time))) {
    if (fits(table(site[time > from & time <= end]))) ends <- c(ends, from <- end)
  }
  ends[length(ends)] <- max(time)
  stopifnot(tapply(site, on_grid(time, ends), function(rows) fits(table(rows))))
  ends
}
# Between processes: quarters, joined until each interval has at least 3 events at each of at least two sites.
guarded <- c(seq(90, 810, by = 90), 990, 1080, 1530)
grids <- list(quarters = seq(90, 1530, by = 90), counts = grid_of_counts(cohort$time, cohort$site), guarded = guarded)
times <- c(list(exact = cohort$time), lapply(grids, function(ends) on_grid(cohort$time, ends)))
with_times <- function(kind) {
  cohort$time <- times[[kind]]
  cohort
}

horizons <- c(90, 180, 365, 540, 730, 1095)
