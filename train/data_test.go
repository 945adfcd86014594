package train

import (
	"context"
	"log/slog"
	"path/filepath"
	"slices"
	"testing"
)

func corpusOf(t *testing.T, c Config) *corpus {
	t.Helper()
	k, err := openCorpus(context.Background(), c, nil, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = k.data.Close() })
	return k
}

func TestTailsAreNeverSeen(t *testing.T) {
	c := small(spots(t, 3, 10), filepath.Join(t.TempDir(), "run"))
	c.Horizon, c.ValShare, c.ValSplit = 4, 0.3, splitAuto
	k := corpusOf(t, c)
	if k.provenance.Split != splitTail || len(k.provenance.TrainEpisodes) != 3 {
		t.Fatalf("three episodes were split by %q into %v", k.provenance.Split, k.provenance.TrainEpisodes)
	}
	if len(k.train) != 3*7 || len(k.val) != 3*3 {
		t.Fatalf("%d training and %d validation rows, want 21 and 9", len(k.train), len(k.val))
	}
	dim := k.spec.ActionDim()
	chunk, valid := make([]float64, 4*dim), make([]bool, 4)
	for _, row := range k.train {
		e, at := k.data.Locate(row)
		if err := k.spec.EncodeTargets(chunk, valid, k.seen(e), at); err != nil {
			t.Fatal(err)
		}
		for step, ok := range valid {
			if ok != (at+step < 7) {
				t.Fatalf("row %d step %d valid: %v; rows from 7 on are held out", at, step, ok)
			}
		}
	}
	for _, e := range k.trainEpisodes() {
		if e.Length != 7 {
			t.Errorf("statistics see %d rows of 10", e.Length)
		}
	}
}

func TestEpisodesAreHeldOutWhole(t *testing.T) {
	c := small(spots(t, 6, 5), filepath.Join(t.TempDir(), "run"))
	c.ValShare = 0.3
	k := corpusOf(t, c)
	if len(k.provenance.ValEpisodes) != 2 || len(k.train) != 20 || len(k.val) != 10 {
		t.Fatalf("validation episodes %v, %d and %d rows", k.provenance.ValEpisodes, len(k.train), len(k.val))
	}
	for _, row := range k.val {
		e, _ := k.data.Locate(row)
		if slices.Contains(k.provenance.TrainEpisodes, e.Index) {
			t.Errorf("episode %d is in both parts", e.Index)
		}
	}
	if k.provenance.Identity == "" || k.provenance.Rows != 20 || !slices.Equal(k.provenance.Prompts, []string{"point at the spot"}) {
		t.Errorf("provenance %+v", k.provenance)
	}
}
