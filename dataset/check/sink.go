package check

import (
	"fmt"

	"github.com/pinch-robotics/pinch/dataset"
)

// nums are the numbers a finding rests on.
type nums = map[string]float64

// place says where a finding is. Findings of one code count together when feature, episode and file agree; those without an episode
// when feature and key agree, key being the file unless it is given.
type place struct {
	file           string
	episode, frame int
	frames         int
	feature        string
	key            string
	fix            string // instead of the catalogue's
}

func in(file string) place { return place{file: file, episode: -1, frame: -1} }

// of is about a feature in all files.
func of(feature, file string) place {
	return place{file: file, episode: -1, frame: -1, feature: feature, key: "*"}
}

func at(file string, episode, frame int) place {
	return place{file: file, episode: episode, frame: frame}
}

func (p place) on(feature string) place  { p.feature = feature; return p }
func (p place) lasting(frames int) place { p.frames = frames; return p }
func (p place) keyed(key string) place   { p.key = key; return p }
func (p place) fixedBy(fix string) place { p.fix = fix; return p }

// most bounds the findings of one code, so that a broken dataset of a million episodes has a report one can read.
const most = 2000

// sink collects findings. Not safe for concurrent use: each worker has its own.
type sink struct {
	list   []dataset.Finding
	seen   map[string]int
	number map[string]int
}

// say records a finding of the catalogue.
func (s *sink) say(code string, p place, n nums, format string, a ...any) {
	c, ok := catalogue[code]
	if !ok {
		panic("check: no code " + code + " in the catalogue") // a test says every code
	}
	key := fmt.Sprintf("%s|%s|%d|%s", code, p.feature, p.episode, p.file)
	if p.key != "" {
		key = code + "|" + p.feature + "|" + p.key
	}
	if s.seen == nil {
		s.seen, s.number = map[string]int{}, map[string]int{}
	}
	if i, ok := s.seen[key]; ok {
		s.list[i].Count++
		return
	}
	if s.number[code]++; s.number[code] > most {
		key = code // the last one counts the rest
		if i, ok := s.seen[key]; ok {
			s.list[i].Count++
			return
		}
	}
	fix := c.Fix
	if p.fix != "" {
		fix = p.fix
	}
	s.seen[key] = len(s.list)
	s.list = append(s.list, dataset.Finding{Code: code, Severity: c.Severity, File: p.file, Episode: p.episode, Frame: p.frame, Frames: p.frames,
		Feature: p.feature, Message: fmt.Sprintf(format, a...), Numbers: n, Fix: fix, Count: 1})
}

// take adds the findings of another sink.
func (s *sink) take(other *sink) {
	keys := make([]string, len(other.list))
	for key, i := range other.seen {
		keys[i] = key
	}
	if s.seen == nil {
		s.seen, s.number = map[string]int{}, map[string]int{}
	}
	for i, f := range other.list {
		if j, ok := s.seen[keys[i]]; ok {
			s.list[j].Count += f.Count
			continue
		}
		s.seen[keys[i]] = len(s.list)
		s.list = append(s.list, f)
	}
}

func (s *sink) findings() []dataset.Finding { return s.list }
