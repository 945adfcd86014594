package pq

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func writeFile(t *testing.T, rows int, columns []Column, md map[string]string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "t.parquet")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := Write(f, rows, columns, md); err != nil {
		t.Fatal(err)
	}
	return path
}

// Zeros must stay zeros (the library's optional tag writes them as null) and nested lists keep their order.
func TestRoundTrip(t *testing.T) {
	columns := []Column{
		{Name: "z.vec", Shape: []int{3}, Fixed: true, Values: []float32{0, 1, 2, 3, 0, 5}},
		{Name: "a", Values: []int64{0, 7}},
		{Name: "flag", Values: []bool{false, true}},
		{Name: "text", Values: []string{"", "päck it"}},
		{Name: "nest", Shape: []int{2, 1, 2}, Values: []float64{0, 1, 2, 3, 4, 5, 6, 0}},
		{Name: "none", Shape: []int{0}, Values: []string{}},
		{Name: "i", Values: []int32{0, -1}},
	}
	path := writeFile(t, 2, columns, map[string]string{"k": "v"})
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if v, _ := f.Metadata("k"); v != "v" || f.Rows() != 2 || len(f.RowGroups()) != 1 {
		t.Fatalf("metadata %q rows %d groups %v", v, f.Rows(), f.RowGroups())
	}
	for i, c := range columns {
		if got := f.Columns()[i]; got.Name != c.Name || got.Depth != len(c.Shape) {
			t.Errorf("column %d is %+v, want %s of depth %d", i, got, c.Name, len(c.Shape))
		}
		d, err := f.Read(c.Name, 0, 2)
		if err != nil {
			t.Fatal(err)
		}
		if c.Name == "none" {
			if len(d.Starts) != 3 || d.Starts[2] != 0 || d.Null != nil {
				t.Errorf("empty list read as %+v", d)
			}
			continue
		}
		if diff := cmp.Diff(c.Values, d.Values); diff != "" || d.Null != nil {
			t.Errorf("%s: %s nulls %v", c.Name, diff, d.Null)
		}
		d, err = f.Read(c.Name, 1, 2)
		if err != nil {
			t.Fatal(err)
		}
		if len(d.Starts) != 2 || d.Starts[1] != c.per() {
			t.Errorf("%s row 1 has starts %v", c.Name, d.Starts)
		}
	}
}

func TestWriteRefusesWrongCounts(t *testing.T) {
	err := Write(nil, 2, []Column{{Name: "a", Shape: []int{3}, Values: []float32{1, 2, 3}}}, nil)
	if err == nil {
		t.Fatal("a short column was accepted")
	}
}
