package check

import "github.com/pinch-robotics/pinch/dataset"

// Entry describes one check.
type Entry struct {
	Code     string
	Severity dataset.Severity
	// What it means when it is found.
	What string
	// Rule by which the threshold comes about; empty where there is none.
	Rule string
	// Fix says what to do.
	Fix string
}

// Area is a group of checks.
type Area struct {
	Name, About string
	Entries     []Entry
}

// Areas lists every check, in the order in which they run.
func Areas() []Area {
	return []Area{
		metadataArea, featuresArea, leftoversArea, tasksArea, episodesArea, rowsArea,
		videosArea, statisticsArea, contentArea, picturesArea,
	}
}

// catalogue finds a check by its code.
var catalogue = func() map[string]Entry {
	out := map[string]Entry{}
	for _, a := range Areas() {
		for _, e := range a.Entries {
			if _, twice := out[e.Code]; twice {
				panic("check: code " + e.Code + " is there twice")
			}
			out[e.Code] = e
		}
	}
	return out
}()
