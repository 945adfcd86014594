// Package stat holds the statistics of small numbers of trials: intervals of a mean score, of a paired difference and of a
// rate, and the exact sign-flip test. Every random draw comes from a seed that the caller gives, so a report can be made again
// to the last digit.
//
// Why not the usual formulas: with 15 trials and scores on five levels the percentile bootstrap covers too little, and every
// bootstrap gives an interval of width zero when all scores are equal. So intervals are bias-corrected and accelerated (BCa,
// Efron 1987), and fall back to a Dirichlet posterior over the score levels when the scores do not vary.
package stat
