package transfer

import (
	"bufio"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// hubServer is a Hub on this machine: dataset repositories with commits, branches and tags, file storage by the Git LFS batch API, gated
// access. It speaks the documented HTTP API as far as dataset repositories need it; huggingface_hub is its independent judge.
type hubServer struct {
	t   testing.TB
	url string
	// store is the address of the file storage, another server than the Hub's as with the real one.
	store string

	mu      sync.Mutex
	repos   map[string]*hubRepo
	objects map[string][]byte // LFS, by SHA-256
	token   string            // that may do everything
	gated   bool              // reading needs the token
	// cut ends the answer to the next reads of files after this many bytes; fail answers the next requests with this status.
	cut, fail []int
	pageSize  int   // of trees
	chunk     int   // LFS parts; 0: whole
	sent      int64 // bytes of files given out
	parts     map[string]map[int][]byte
}

type hubRepo struct {
	commits map[string]map[string]hubFile // files by path, by commit
	refs    map[string]string             // branches and tags
	n       int
}

type hubFile struct {
	data []byte
	lfs  bool
}

func newHubServer(t testing.TB) *hubServer {
	h := &hubServer{t: t, repos: map[string]*hubRepo{}, objects: map[string][]byte{}, token: "hf_secret", pageSize: 7, parts: map[string]map[int][]byte{}}
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	store := httptest.NewServer(h)
	t.Cleanup(store.Close)
	h.url, h.store = s.URL, strings.Replace(store.URL, "127.0.0.1", "localhost", 1)
	t.Setenv("HF_ENDPOINT", s.URL)
	t.Setenv("HF_TOKEN", h.token)
	return h
}

func gitHash(data []byte) string {
	h := newHash(GitBlob, int64(len(data)))
	h.Write(data)
	return hex.EncodeToString(h.Sum(nil))
}

func sha(data []byte) string {
	s := sha256.Sum256(data)
	return hex.EncodeToString(s[:])
}

// refuse answers with the Hub's error headers.
func refuse(w http.ResponseWriter, status int, code, text string) {
	if code != "" {
		w.Header().Set("X-Error-Code", code)
	}
	w.Header().Set("X-Error-Message", text)
	http.Error(w, text, status)
}

func reply(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}

func (h *hubServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.fail) > 0 {
		status := h.fail[0]
		h.fail = h.fail[1:]
		refuse(w, status, "", "the server has trouble")
		return
	}
	path := strings.Trim(r.URL.EscapedPath(), "/")
	signed := strings.HasPrefix(path, "storage/")
	if auth := r.Header.Get("Authorization"); signed && auth != "" {
		h.t.Errorf("the token went to the storage: %s", path)
	} else if write := r.Method != http.MethodGet && r.Method != http.MethodHead; !signed && auth != "Bearer "+h.token && (h.gated || write) {
		refuse(w, http.StatusUnauthorized, map[bool]string{true: "GatedRepo"}[h.gated], "Access to dataset is restricted")
		return
	}
	switch parts := strings.Split(path, "/"); {
	case path == "api/repos/create":
		h.create(w, r)
	case path == "api/whoami-v2":
		reply(w, map[string]any{"name": "lab", "type": "user", "orgs": []any{}})
	case signed:
		h.storage(w, r, parts[1:])
	case strings.HasSuffix(path, ".git/info/lfs/objects/batch"):
		h.batch(w, r)
	case len(parts) >= 4 && parts[0] == "api" && parts[1] == "datasets":
		h.dataset(w, r, parts[2]+"/"+parts[3], parts[4:])
	case len(parts) >= 6 && parts[0] == "datasets" && parts[3] == "resolve":
		h.resolve(w, r, parts[1]+"/"+parts[2], parts[4], strings.Join(parts[5:], "/"))
	default:
		refuse(w, http.StatusNotFound, "", "no such address: "+path)
	}
}

func (h *hubServer) create(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Type, Name, Organization string
		Private                  *bool
	}
	_ = json.NewDecoder(r.Body).Decode(&in)
	name := in.Organization + "/" + in.Name
	if in.Organization == "" {
		name = "lab/" + in.Name
	}
	if in.Type != "dataset" {
		refuse(w, http.StatusBadRequest, "", "only datasets here")
		return
	}
	if h.repos[name] != nil {
		refuse(w, http.StatusConflict, "", "You already created this dataset repo")
		return
	}
	repo := &hubRepo{commits: map[string]map[string]hubFile{}, refs: map[string]string{}}
	h.repos[name] = repo
	repo.commit(map[string]hubFile{".gitattributes": {data: []byte("*.parquet filter=lfs diff=lfs merge=lfs -text\n")}})
	reply(w, map[string]any{"url": h.url + "/datasets/" + name, "name": name, "id": "1"})
}

func (p *hubRepo) commit(files map[string]hubFile) string {
	p.n++
	id := sha([]byte(fmt.Sprint("commit ", p.n)))[:40]
	p.commits[id] = files
	p.refs["main"] = id
	return id
}

func (h *hubServer) at(w http.ResponseWriter, repo, revision string) (*hubRepo, string) {
	p := h.repos[repo]
	if p == nil {
		refuse(w, http.StatusNotFound, "RepoNotFound", "Repository not found")
		return nil, ""
	}
	if id, ok := p.refs[revision]; ok {
		return p, id
	}
	if _, ok := p.commits[revision]; ok {
		return p, revision
	}
	refuse(w, http.StatusNotFound, "RevisionNotFound", "Invalid rev id: "+revision)
	return nil, ""
}

func (h *hubServer) dataset(w http.ResponseWriter, r *http.Request, repo string, rest []string) {
	verb := append(rest, "", "")
	if verb[0] == "" {
		verb[0], verb[1] = "revision", "main"
	}
	if verb[0] == "tag" {
		h.tag(w, r, repo, verb[1])
		return
	}
	p, id := h.at(w, repo, verb[1])
	if p == nil {
		return
	}
	switch verb[0] {
	case "revision":
		var siblings []map[string]string
		for _, path := range slices.Sorted(maps.Keys(p.commits[id])) {
			siblings = append(siblings, map[string]string{"rfilename": path})
		}
		reply(w, map[string]any{"id": repo, "_id": "1", "sha": id, "siblings": siblings, "private": false, "tags": []string{}, "downloads": 0, "likes": 0})
	case "tree":
		h.tree(w, r, repo, p.commits[id])
	case "paths-info":
		h.pathsInfo(w, r, p.commits[id])
	case "preupload":
		var in struct {
			Files []struct{ Path, Sample string }
		}
		_ = json.NewDecoder(r.Body).Decode(&in)
		var out []map[string]any
		for _, f := range in.Files {
			mode := "regular"
			if strings.HasSuffix(f.Path, ".parquet") || strings.HasSuffix(f.Path, ".mp4") {
				mode = "lfs"
			}
			out = append(out, map[string]any{"path": f.Path, "uploadMode": mode, "shouldIgnore": false})
		}
		reply(w, map[string]any{"files": out})
	case "commit":
		h.commit(w, r, p, id)
	default:
		refuse(w, http.StatusNotFound, "", "no verb "+verb[0])
	}
}

func entry(path string, f hubFile) map[string]any {
	e := map[string]any{"type": "file", "path": path, "size": len(f.data), "oid": gitHash(f.data)}
	if f.lfs {
		pointer := fmt.Sprintf("version https://git-lfs.github.com/spec/v1\noid sha256:%s\nsize %d\n", sha(f.data), len(f.data))
		e["oid"] = gitHash([]byte(pointer))
		e["lfs"] = map[string]any{"oid": sha(f.data), "size": len(f.data), "pointerSize": len(pointer)}
	}
	return e
}

// tree lists files and folders in pages, as the Hub does.
func (h *hubServer) tree(w http.ResponseWriter, r *http.Request, repo string, files map[string]hubFile) {
	var all []map[string]any
	folders := map[string]bool{}
	for _, path := range slices.Sorted(maps.Keys(files)) {
		for i, c := range path {
			if dir := path[:i]; c == '/' && !folders[dir] {
				folders[dir] = true
				all = append(all, map[string]any{"type": "directory", "path": dir, "size": 0, "oid": gitHash([]byte(dir))})
			}
		}
		all = append(all, entry(path, files[path]))
	}
	from, _ := strconv.Atoi(r.URL.Query().Get("cursor"))
	to := min(from+h.pageSize, len(all))
	if to < len(all) {
		q := r.URL.Query()
		q.Set("cursor", strconv.Itoa(to))
		w.Header().Set("Link", fmt.Sprintf(`<%s%s?%s>; rel="next"`, h.url, r.URL.Path, q.Encode()))
	}
	reply(w, all[from:to])
}

func (h *hubServer) pathsInfo(w http.ResponseWriter, r *http.Request, files map[string]hubFile) {
	_ = r.ParseForm()
	var in struct{ Paths []string }
	if in.Paths = r.Form["paths"]; len(in.Paths) == 0 {
		_ = json.NewDecoder(r.Body).Decode(&in)
	}
	out := []map[string]any{}
	for _, p := range in.Paths {
		if f, ok := files[p]; ok {
			out = append(out, entry(p, f))
		}
	}
	reply(w, out)
}

func (h *hubServer) commit(w http.ResponseWriter, r *http.Request, p *hubRepo, id string) {
	files := maps.Clone(p.commits[id])
	lines := bufio.NewScanner(r.Body)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var op struct {
			Key   string
			Value struct {
				Path, Content, Encoding, OID, ParentCommit string
				Size                                       int
			}
		}
		if err := json.Unmarshal(lines.Bytes(), &op); err != nil {
			refuse(w, http.StatusBadRequest, "", err.Error())
			return
		}
		switch v := op.Value; op.Key {
		case "header":
			if v.ParentCommit != "" && v.ParentCommit != id {
				refuse(w, http.StatusPreconditionFailed, "", "A commit has happened since. Please refresh and try again.")
				return
			}
		case "file":
			b, err := base64.StdEncoding.DecodeString(v.Content)
			if err != nil || v.Encoding != "base64" {
				refuse(w, http.StatusBadRequest, "", "not base64")
				return
			}
			files[v.Path] = hubFile{data: b}
		case "lfsFile":
			b, ok := h.objects[v.OID]
			if !ok || len(b) != v.Size {
				refuse(w, http.StatusBadRequest, "", "the object of "+v.Path+" was not uploaded")
				return
			}
			files[v.Path] = hubFile{data: b, lfs: true}
		case "deletedFile":
			delete(files, v.Path)
		case "deletedFolder":
			maps.DeleteFunc(files, func(path string, _ hubFile) bool { return strings.HasPrefix(path, strings.TrimSuffix(v.Path, "/")+"/") })
		}
	}
	now := p.commit(files)
	reply(w, map[string]any{"success": true, "commitOid": now, "commitUrl": h.url + "/datasets/x/y/commit/" + now})
}

func (h *hubServer) tag(w http.ResponseWriter, r *http.Request, repo, name string) {
	p := h.repos[repo]
	if p == nil {
		refuse(w, http.StatusNotFound, "RepoNotFound", "Repository not found")
		return
	}
	if r.Method == http.MethodDelete {
		if _, ok := p.refs[name]; !ok {
			refuse(w, http.StatusNotFound, "RevisionNotFound", "no such tag")
			return
		}
		delete(p.refs, name)
		return
	}
	var in struct{ Tag string }
	_ = json.NewDecoder(r.Body).Decode(&in)
	if _, ok := p.refs[in.Tag]; ok {
		refuse(w, http.StatusConflict, "", "tag exists")
		return
	}
	_, id := h.at(w, repo, name)
	p.refs[in.Tag] = id
	reply(w, map[string]any{})
}

// batch is the Git LFS batch API. Specification: git-lfs docs/api/batch.md.
func (h *hubServer) batch(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Operation string
		Objects   []struct {
			OID  string
			Size int
		}
	}
	_ = json.NewDecoder(r.Body).Decode(&in)
	var out []map[string]any
	for _, o := range in.Objects {
		e := map[string]any{"oid": o.OID, "size": o.Size}
		if _, ok := h.objects[o.OID]; !ok && in.Operation == "upload" {
			header := map[string]string{"X-Signed": "yes"}
			href := h.store + "/storage/" + o.OID
			if h.chunk > 0 && o.Size > h.chunk {
				header = map[string]string{"chunk_size": strconv.Itoa(h.chunk)}
				for n := 1; (n-1)*h.chunk < o.Size; n++ {
					header[fmt.Sprintf("%05d", n)] = fmt.Sprintf("%s/storage/%s/%d", h.store, o.OID, n)
				}
				href = h.store + "/storage/" + o.OID + "/complete"
			}
			e["actions"] = map[string]any{"upload": map[string]any{"href": href, "header": header}}
		}
		out = append(out, e)
	}
	w.Header().Set("Content-Type", "application/vnd.git-lfs+json")
	_ = json.NewEncoder(w).Encode(map[string]any{"transfer": "basic", "objects": out})
}

func (h *hubServer) storage(w http.ResponseWriter, r *http.Request, parts []string) {
	oid := parts[0]
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		h.give(w, r, h.objects[oid])
		return
	}
	data, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	switch {
	case len(parts) == 1:
		if sha(data) != oid {
			refuse(w, http.StatusBadRequest, "", "other content than its name says")
			return
		}
		h.objects[oid] = data
	case parts[1] == "complete":
		var in struct {
			Parts []struct {
				PartNumber int
				ETag       string
			}
		}
		_ = json.Unmarshal(data, &in)
		var all []byte
		for _, p := range in.Parts {
			piece := h.parts[oid][p.PartNumber]
			if p.ETag != `"`+gitHash(piece)+`"` {
				refuse(w, http.StatusBadRequest, "", "wrong etag")
				return
			}
			all = append(all, piece...)
		}
		if sha(all) != oid {
			refuse(w, http.StatusBadRequest, "", "the parts do not make the object")
			return
		}
		h.objects[oid] = all
		reply(w, map[string]any{})
	default:
		n, _ := strconv.Atoi(parts[1])
		if h.parts[oid] == nil {
			h.parts[oid] = map[int][]byte{}
		}
		h.parts[oid][n] = data
		w.Header().Set("ETag", `"`+gitHash(data)+`"`)
	}
}

// resolve gives a file; those in the file storage by a redirect to it, with the headers that clients read before they follow.
func (h *hubServer) resolve(w http.ResponseWriter, r *http.Request, repo, revision, path string) {
	p, id := h.at(w, repo, revision)
	if p == nil {
		return
	}
	f, ok := p.commits[id][path]
	if !ok {
		refuse(w, http.StatusNotFound, "EntryNotFound", "Entry not found")
		return
	}
	w.Header().Set("X-Repo-Commit", id)
	if f.lfs {
		w.Header().Set("X-Linked-Etag", `"`+sha(f.data)+`"`)
		w.Header().Set("X-Linked-Size", strconv.Itoa(len(f.data)))
		http.Redirect(w, r, h.store+"/storage/"+sha(f.data), http.StatusFound)
		return
	}
	w.Header().Set("ETag", `"`+gitHash(f.data)+`"`)
	h.give(w, r, f.data)
}

// give sends bytes, from the start of a range on.
func (h *hubServer) give(w http.ResponseWriter, r *http.Request, data []byte) {
	from := 0
	if n, _ := fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-", &from); n == 1 {
		w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, len(data)-1, len(data)))
		w.Header().Set("Content-Length", strconv.Itoa(len(data)-from))
		w.WriteHeader(http.StatusPartialContent)
	} else {
		w.Header().Set("Content-Length", strconv.Itoa(len(data)))
	}
	if r.Method == http.MethodHead {
		return
	}
	rest := data[from:]
	if len(h.cut) > 0 {
		rest = rest[:min(len(rest), h.cut[0])]
		h.cut = h.cut[1:]
	}
	h.sent += int64(len(rest))
	_, _ = w.Write(rest)
}
