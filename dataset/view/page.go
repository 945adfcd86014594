package view

import (
	"embed"
	"html/template"
	"io"
	"io/fs"
	"net/http"
	"net/url"
)

//go:embed web
var web embed.FS

// scripts of the page, in the order in which they build on each other.
var scripts = []string{"dom.js", "source.js", "player.js", "lanes.js", "curves.js", "scene.js", "list.js", "overview.js", "episode.js", "app.js"}

var pageTemplate = template.Must(template.ParseFS(web, "web/page.html"))

// page is what page.html shows. A live page loads style and scripts from the server; a page in a file holds them.
type page struct {
	Title string
	Live  bool
	Boot  []byte // JSON
}

// writePage writes the one page there is.
func writePage(w io.Writer, p page) error {
	data := struct {
		Title   string
		Live    bool
		Boot    template.JS
		Scripts []string
		Style   template.CSS
		Code    []template.JS
	}{Title: p.Title, Live: p.Live, Boot: template.JS(p.Boot), Scripts: scripts}
	if !p.Live {
		style, err := web.ReadFile("web/style.css")
		if err != nil {
			return err
		}
		data.Style = template.CSS(style)
		for _, name := range scripts {
			code, err := web.ReadFile("web/" + name)
			if err != nil {
				return err
			}
			data.Code = append(data.Code, template.JS(code))
		}
	}
	return pageTemplate.Execute(w, data)
}

func assetServer() http.Handler {
	files, err := fs.Sub(web, "web")
	if err != nil {
		panic(err) // the folder is part of the program
	}
	return http.FileServerFS(files)
}

func escapeSegment(s string) string { return url.PathEscape(s) }
