package eval

import "testing"

// Two runs against other demonstrations have other plans: the plan holds the identity of the replay dataset.
func TestThePlanNamesTheReplayDataset(t *testing.T) {
	digest := func(rows int) (identity, sum string) {
		d := lineDataset(t, rows)
		identity, err := d.Identity()
		if err != nil {
			t.Fatal(err)
		}
		entrant, err := Replay(d)
		if err != nil {
			t.Fatal(err)
		}
		p, err := newPlan(Task{}, make([]Condition, 2), []Entrant{entrant}, 1)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Entrants[0].Metadata["dataset_identity"]; got != identity {
			t.Errorf("identity %v in the plan, want %s", got, identity)
		}
		if sum, err = p.digest(); err != nil {
			t.Fatal(err)
		}
		return identity, sum
	}
	id1, sum1 := digest(40)
	id2, sum2 := digest(40)
	_, sum3 := digest(39)
	if id1 != id2 || sum1 != sum2 {
		t.Errorf("equal datasets: identities %s and %s, plans %s and %s", id1, id2, sum1, sum2)
	}
	if sum1 == sum3 {
		t.Error("another dataset has the same plan")
	}
}
