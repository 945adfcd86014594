package bench

import (
	"context"
	"math"
	"strings"
	"testing"
	"time"
)

// By hand: of 1 ms to 200 ms the median lies between the 100th and the 101st in order, the 99th percentile at position 197.01 from 0.
func TestPercentiles(t *testing.T) {
	var times []time.Duration
	for i := 200; i >= 1; i-- {
		times = append(times, time.Duration(i)*time.Millisecond)
	}
	rows := percentiles("x", times)
	for i, want := range []float64{100.5, 198.01, 200} {
		if math.Abs(rows[i].Value-want) > 1e-9 {
			t.Errorf("%s: %v ms, want %v", rows[i].What, rows[i].Value, want)
		}
	}
	one := percentiles("x", times[:1])
	if one[0].Value != 200 || one[1].Value != 200 {
		t.Errorf("a single time: %+v", one)
	}
}

func TestWhatLacksItsInputIsSkippedWithTheReason(t *testing.T) {
	table, err := Run(t.Context(), Options{Only: []string{"ingest", "loader", "train", "policy"}})
	if err != nil {
		t.Fatal(err)
	}
	if len(table.Rows) != 0 || len(table.Skipped) != 4 || !strings.Contains(table.Skipped[0], "no recordings were given") {
		t.Errorf("%+v", table)
	}
	if _, err := Run(t.Context(), Options{Only: []string{"speed"}}); err == nil || !strings.Contains(err.Error(), "there are capture, ingest") {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Run(ctx, Options{Only: []string{"capture"}}); err == nil {
		t.Error("a cancelled measurement gave a table")
	}
}

func TestTextHasThreeDigits(t *testing.T) {
	table := Table{Machine: "m", Rows: []Row{{"capture", "lost", 0, "frames"}, {"train", "size tiny", 123.456, "samples/s"}, {"policy", "p50", 4.5678, "ms"}}}
	var b strings.Builder
	if err := table.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	want := "m\ncapture  lost       0     frames\ntrain    size tiny  123   samples/s\npolicy   p50        4.57  ms\n"
	if b.String() != want {
		t.Errorf("got\n%swant\n%s", b.String(), want)
	}
}
