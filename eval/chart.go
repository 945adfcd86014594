package eval

import (
	"encoding/json"
	"fmt"
	"html/template"
	"image"
	"image/color"
	"math"
	"strings"

	"github.com/pinch-robotics/pinch/internal/imaging"
	"github.com/pinch-robotics/pinch/internal/sim"
)

// rgbImage shows a decoded picture to the image library.
type rgbImage struct{ imaging.RGB }

// ColorModel is RGBA.
func (r rgbImage) ColorModel() color.Model { return color.RGBAModel }

// Bounds is the whole picture.
func (r rgbImage) Bounds() image.Rectangle { return image.Rect(0, 0, r.Width, r.Height) }

// At is one pixel.
func (r rgbImage) At(x, y int) color.Color {
	p := r.Pix[3*(y*r.Width+x):]
	return color.RGBA{p[0], p[1], p[2], 255}
}

// scoreChart draws, for each entrant, every trial's score as a dot and the mean with its interval as a bar. The page's style
// colours the classes.
func scoreChart(r *Report) template.HTML {
	const left, width, rowHeight, top = 120.0, 500.0, 44.0, 14.0
	x := func(v float64) float64 { return left + v*width }
	height := top + rowHeight*float64(len(r.Summaries)) + 30
	var b strings.Builder
	fmt.Fprintf(&b, `<svg class="chart" viewBox="0 0 %.0f %.0f" role="img" aria-label="score of each trial and mean by entrant">`, left+width+60, height)
	for k := range 5 {
		v := float64(k) / 4
		fmt.Fprintf(&b, `<line class="grid" x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f"/><text class="tick" x="%.1f" y="%.1f">%.2f</text>`,
			x(v), x(v), top, height-24, x(v), height-8, v)
	}
	for i, s := range r.Summaries {
		y := top + rowHeight*(float64(i)+0.5)
		fmt.Fprintf(&b, `<text class="name" x="%.1f" y="%.1f">%s</text>`, left-42, y+4, template.HTMLEscapeString(s.Entrant))
		stacked := map[int]int{}
		for _, t := range r.Trials {
			if t.Entrant != s.Entrant || !t.Counts {
				continue
			}
			key := int(math.Round(1000 * t.Score))
			// Equal scores stand beside each other, alternating outwards.
			n := stacked[key]
			stacked[key]++
			side := float64((n+1)/2) * float64(1-2*(n%2))
			fmt.Fprintf(&b, `<circle class="trial" cx="%.1f" cy="%.1f" r="3"/>`, x(t.Score)+side*4.5, y+9)
		}
		fmt.Fprintf(&b, `<line class="interval" x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f"/><circle class="mean" cx="%.1f" cy="%.1f" r="5"/>`,
			x(s.Score.Low), x(s.Score.High), y-7, y-7, x(s.Score.Estimate), y-7)
		fmt.Fprintf(&b, `<text class="value" x="%.1f" y="%.1f">%.2f</text>`, left+width+16, y-3, s.Score.Estimate)
	}
	b.WriteString("</svg>")
	return template.HTML(b.String()) // every inserted text is a number or escaped
}

// sceneMap draws the table from above with each condition's block (a square at its yaw) and tray, the block coloured by the score of
// the first entrant. It is empty when the conditions have no scenes.
func sceneMap(r *Report) template.HTML {
	scores := map[int]float64{}
	for _, t := range r.Trials {
		if t.Counts && t.Entrant == r.Plan.Entrants[0].Name {
			scores[t.Number] = t.Score
		}
	}
	var shapes strings.Builder
	// The drawing looks from behind the robots: cell X up, cell Y to the left, millimetres.
	low, high := [2]float64{1e9, 1e9}, [2]float64{-1e9, -1e9}
	square := func(class string, p sim.Planar, half float64, extra string) {
		u, v := -1000*p.Y, -1000*p.X
		low = [2]float64{min(low[0], u-1500*half), min(low[1], v-1500*half)}
		high = [2]float64{max(high[0], u+1500*half), max(high[1], v+1500*half)}
		fmt.Fprintf(&shapes, `<rect class="%s" x="%.1f" y="%.1f" width="%.1f" height="%.1f" transform="translate(%.1f %.1f) rotate(%.1f)" %s/>`,
			class, -1000*half, -1000*half, 2000*half, 2000*half, u, v, -p.Yaw*180/math.Pi, extra)
	}
	found := 0
	for n, c := range r.Plan.Conditions {
		var scene sim.Condition
		if len(c.Scene) == 0 || json.Unmarshal(c.Scene, &scene) != nil {
			continue
		}
		found++
		square("tray", scene.Tray, sim.TrayHalf, "")
		square("block", scene.Block, sim.BlockHalfWidth, fmt.Sprintf(`style="fill:%s"`, scoreColor(scores[n])))
	}
	if found == 0 {
		return ""
	}
	return template.HTML(fmt.Sprintf(`<svg class="map" viewBox="%.0f %.0f %.0f %.0f" role="img" aria-label="where blocks and trays stood">%s</svg>`,
		low[0], low[1], high[0]-low[0], high[1]-low[1], shapes.String()))
}

// scoreColor goes from red over yellow to green.
func scoreColor(v float64) string { return fmt.Sprintf("hsl(%.0f 70%% 45%%)", 120*v) }
