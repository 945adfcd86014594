package stat

import (
	"fmt"
	"math"
	"math/rand/v2"
)

// Alternative is the hypothesis that a test may accept instead of "no difference".
type Alternative string

// Alternatives of a paired test.
const (
	Greater  Alternative = "greater"   // the mean difference is above zero
	TwoSided Alternative = "two-sided" // it differs from zero
)

// exactPairs is the largest number of pairs that SignFlip enumerates: 2^20 sums take some milliseconds.
const exactPairs = 20

// flips is the number of random assignments beyond exactPairs; the smallest possible p-value is then 1/(flips+1).
const flips = 200_000

// Test is the outcome of a test.
type Test struct {
	P           float64     `json:"p"`
	Alternative Alternative `json:"alternative"`
	Method      string      `json:"method"`
	Pairs       int         `json:"pairs"`
}

// SignFlip tests paired differences under the hypothesis that swapping the two policies in a pair changes nothing, so that each
// difference is as likely with either sign (Fisher's randomisation test). The p-value is the share of all 2^n sign assignments whose
// sum is at least as extreme as the observed one, the observed one included: exact up to 20 pairs, drawn by seed beyond.
func SignFlip(differences []float64, alternative Alternative, seed uint64) (Test, error) {
	n := len(differences)
	if n == 0 {
		return Test{}, fmt.Errorf("sign-flip test: no pair")
	}
	if alternative != Greater && alternative != TwoSided {
		return Test{}, fmt.Errorf("sign-flip test: alternative %q, want %s or %s", alternative, Greater, TwoSided)
	}
	observed := 0.0
	for i, d := range differences {
		if math.IsNaN(d) || math.IsInf(d, 0) {
			return Test{}, fmt.Errorf("sign-flip test: difference %d is %v", i, d)
		}
		observed += d
	}
	extreme := func(sum float64) bool {
		const tie = 1e-9 // sums of equal terms in another order
		if alternative == TwoSided {
			return math.Abs(sum) >= math.Abs(observed)-tie
		}
		return sum >= observed-tie
	}
	out := Test{Alternative: alternative, Pairs: n}
	if n <= exactPairs {
		out.Method = "exact sign-flip"
		out.P = float64(countExact(differences, extreme)) / float64(int(1)<<n)
		return out, nil
	}
	out.Method = fmt.Sprintf("sign-flip, %d draws", flips)
	out.P = float64(countDrawn(differences, extreme, seed)+1) / float64(flips+1)
	return out, nil
}

// countExact walks all assignments in Gray-code order, in which one sign changes at a time.
func countExact(d []float64, extreme func(float64) bool) int {
	sum := 0.0
	signs := make([]float64, len(d))
	for i, v := range d {
		sum += v
		signs[i] = 1
	}
	count := 0
	for k := 1; ; k++ {
		if extreme(sum) {
			count++
		}
		if k == 1<<len(d) {
			return count
		}
		bit := 0
		for k>>bit&1 == 0 {
			bit++
		}
		signs[bit] = -signs[bit]
		sum += 2 * signs[bit] * d[bit]
	}
}

func countDrawn(d []float64, extreme func(float64) bool, seed uint64) int {
	rng := rand.New(rand.NewPCG(seed, 0x51f1))
	count := 0
	for range flips {
		sum := 0.0
		for _, v := range d {
			if rng.Uint64()&1 == 0 {
				sum += v
			} else {
				sum -= v
			}
		}
		if extreme(sum) {
			count++
		}
	}
	return count
}
