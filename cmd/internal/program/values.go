package program

// CheckCount refuses a whole number outside low to high, both allowed. flag is its name with the dashes.
func CheckCount(flag string, v, low, high int) error {
	if v < low || v > high {
		return Usage("%s: %d, want %d to %d", flag, v, low, high)
	}
	return nil
}

// CheckNumber refuses a number outside low to high, both allowed, and NaN.
func CheckNumber(flag string, v, low, high float64) error {
	if !(v >= low && v <= high) {
		return Usage("%s: %v, want %v to %v", flag, v, low, high)
	}
	return nil
}
