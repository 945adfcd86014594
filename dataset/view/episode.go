package view

import (
	"fmt"
	"maps"
	"net/url"
	"slices"

	"github.com/pinch-robotics/pinch/dataset"
	"github.com/pinch-robotics/pinch/dataset/video"
)

// episodePage is what the page knows of one episode; the columns come apart from it.
type episodePage struct {
	Index    int               `json:"index"`
	Rows     int               `json:"rows"`
	Seconds  float64           `json:"seconds"`
	Tasks    []string          `json:"tasks"`
	About    []pair            `json:"about"`
	Cameras  []camera          `json:"cameras"`
	Lanes    []lane            `json:"lanes"`
	Findings []dataset.Finding `json:"findings"`
	// Prev and Next are the neighbours in the table, -1 at its ends.
	Prev int `json:"prev"`
	Next int `json:"next"`
	// Problems are parts that can not be shown, and why.
	Problems []string `json:"problems"`
}

type pair struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// camera is a video, or a feature of picture files.
type camera struct {
	Name string `json:"name"`
	// Src of the mp4; empty when there is none.
	Src string `json:"src"`
	// Frames is the folder below which the server has picture k of the episode as JPEG or PNG under its number; empty where no server is.
	Frames string `json:"frames"`
	// From is the second of the file at which row 0 is shown.
	From   float64 `json:"from"`
	Codec  string  `json:"codec"`
	Mime   string  `json:"mime"` // as canPlayType wants it
	Width  int     `json:"width"`
	Height int     `json:"height"`
	// Note says why there is no picture.
	Note string `json:"note"`
}

// mimes are content types with the profile that most files of a codec have; a browser that plays it plays the usual ones.
var mimes = map[video.Codec]string{
	video.H264: `video/mp4; codecs="avc1.640028"`,
	video.AV1:  `video/mp4; codecs="av01.0.08M.08"`,
	"hevc":     `video/mp4; codecs="hvc1.1.6.L120.B0"`,
	"vp9":      `video/mp4; codecs="vp09.00.31.08"`,
	"mpeg4":    `video/mp4; codecs="mp4v.20.8"`,
}

// describeEpisode gathers what is said of the episode at place at of the table; sources fills in where its pictures are.
func describeEpisode(d *dataset.Dataset, at int, findings []dataset.Finding, sources func(e dataset.EpisodeMeta, c *camera)) (episodePage, error) {
	e, err := d.At(at)
	if err != nil {
		return episodePage{}, err
	}
	p := episodePage{Index: e.Index, Rows: e.Length, Seconds: float64(e.Length) / float64(d.Info().FPS), Tasks: e.Tasks, About: about(e),
		Cameras: []camera{}, Findings: findings, Prev: -1, Next: -1, Problems: []string{}}
	if p.Tasks == nil {
		p.Tasks = []string{}
	}
	if p.Findings == nil {
		p.Findings = []dataset.Finding{}
	}
	p.Prev, p.Next = neighbours(d, at)
	for _, f := range d.Features() {
		if !f.DType.Visual() {
			continue
		}
		c := camera{Name: f.Name}
		if len(f.Shape) == 3 {
			c.Height, c.Width = f.Shape[0], f.Shape[1]
		}
		if f.DType == dataset.Video {
			findVideo(d, e, &c)
		}
		sources(e, &c)
		p.Cameras = append(p.Cameras, c)
	}
	p.Lanes, p.Problems = lanes(d, e, p.Findings)
	return p, nil
}

func neighbours(d *dataset.Dataset, at int) (prev, next int) {
	prev, next = -1, -1
	if at > 0 {
		if e, err := d.At(at - 1); err == nil {
			prev = e.Index
		}
	}
	if at+1 < d.NumEpisodes() {
		if e, err := d.At(at + 1); err == nil {
			next = e.Index
		}
	}
	return prev, next
}

func about(e dataset.EpisodeMeta) []pair {
	out := []pair{}
	for _, name := range slices.Sorted(maps.Keys(e.Extra)) {
		switch v := e.Extra[name].(type) {
		case []string:
			if isMark(name) || len(v) == 0 {
				continue // marks are shown in time
			}
			out = append(out, pair{name, fmt.Sprint(v)})
		default:
			out = append(out, pair{name, fmt.Sprint(v)})
		}
	}
	return out
}

// findVideo fills what the container says.
func findVideo(d *dataset.Dataset, e dataset.EpisodeMeta, c *camera) {
	span := e.Videos[c.Name]
	c.From = span.FromTime
	path := locate(d.Root(), span.Path)
	if path == "" {
		c.Note = "the file " + span.Path + " is missing"
		return
	}
	info, err := video.Probe(path)
	if err != nil {
		c.Note = err.Error()
		return
	}
	c.Codec, c.Width, c.Height, c.Mime = string(info.Codec), info.Width, info.Height, mimes[info.Codec]
	if c.Mime == "" {
		c.Mime = fmt.Sprintf(`video/mp4; codecs="%s"`, info.Codec)
	}
	if span.FirstFrame < info.Frames() { // what the container says of row 0 is what the browser seeks by
		c.From = info.Time(span.FirstFrame)
	}
}

// escaped is a relative path as a URL.
func escaped(path string) string { return (&url.URL{Path: path}).EscapedPath() }
