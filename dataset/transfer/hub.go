package transfer

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// hub is a dataset repository of the Hugging Face Hub, or of a server that speaks its HTTP API.
//
// Specification: huggingface.co/docs/hub/api (tree, revision, resolve, repos/create, tag, preupload, commit), the Git LFS batch API with
// the transfers basic and multipart.
type hub struct {
	o        Options
	endpoint string // without slash at its end
	repo     string // owner/name
	revision string // asked for
	commit   string // that list read; get reads of it
	token    string
}

// defaultRevision is the branch of repositories.
const defaultRevision = "main"

var repoName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*$`)

// openHub reads hf://owner/name[@revision] or hf://datasets/owner/name[@revision]. The endpoint comes from HF_ENDPOINT (default
// https://huggingface.co), the token from HF_TOKEN, the file HF_TOKEN_PATH, or the file that `hf auth login` writes.
func openHub(address string, o Options) (*hub, error) {
	repo, revision, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(address, "hf://"), "datasets/"), "@")
	if !repoName.MatchString(repo) {
		return nil, fmt.Errorf("remote %s: want hf://owner/name or hf://owner/name@revision", address)
	}
	endpoint := strings.TrimRight(cmp.Or(os.Getenv("HF_ENDPOINT"), "https://huggingface.co"), "/")
	if u, err := url.Parse(endpoint); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("HF_ENDPOINT %q: want http://host or https://host", endpoint)
	}
	token, err := hubToken()
	if err != nil {
		return nil, err
	}
	client := *o.Client
	client.CheckRedirect = func(req *http.Request, via []*http.Request) error {
		if len(via) >= 10 {
			return errors.New("10 redirects are enough")
		}
		if !strings.HasPrefix(req.URL.String(), endpoint+"/") { // the file storage has signed addresses, and is not to see the token
			req.Header.Del("Authorization")
		}
		return nil
	}
	o.Client = &client
	return &hub{o: o, endpoint: endpoint, repo: repo, revision: cmp.Or(revision, defaultRevision), token: token}, nil
}

// hubToken finds the user's token; empty means anonymous.
func hubToken() (string, error) {
	if t := strings.TrimSpace(os.Getenv("HF_TOKEN")); t != "" {
		return t, nil
	}
	path := os.Getenv("HF_TOKEN_PATH")
	if path == "" {
		home := os.Getenv("HF_HOME")
		if home == "" {
			user, err := os.UserHomeDir()
			if err != nil {
				return "", nil // no home, no token
			}
			home = filepath.Join(cmp.Or(os.Getenv("XDG_CACHE_HOME"), filepath.Join(user, ".cache")), "huggingface")
		}
		path = filepath.Join(home, "token")
	}
	b, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read the Hub's token: %w", err)
	}
	return strings.TrimSpace(string(b)), nil
}

func (h *hub) String() string { return "hf://" + h.repo + "@" + h.revision }

// api is an address of the API.
func (h *hub) api(format string, args ...any) string {
	return h.endpoint + "/api/" + fmt.Sprintf(format, args...)
}

// request sends one request with the token and gives the answer of a status below 400; the caller closes it. Passing faults are repeated
// when payload can be sent again (nil or bytes).
func (h *hub) request(ctx context.Context, method, address string, header map[string]string, payload []byte) (*http.Response, error) {
	for try := 0; ; try++ {
		res, err := h.once(ctx, method, address, header, bytes.NewReader(payload))
		if err == nil || !errors.Is(err, errTransient) || try >= attempts {
			return res, err
		}
		if err := h.o.sleep(ctx, backoff(try)); err != nil {
			return nil, err
		}
	}
}

func (h *hub) once(ctx context.Context, method, address string, header map[string]string, payload io.Reader) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, address, payload)
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", "pinch")
	if h.token != "" && strings.HasPrefix(address, h.endpoint+"/") { // storage has its own signatures, and is not to see the token
		req.Header.Set("Authorization", "Bearer "+h.token)
	}
	for k, v := range header {
		req.Header.Set(k, v)
	}
	res, err := h.o.Client.Do(req)
	if err != nil {
		return nil, transient(err)
	}
	if res.StatusCode < 400 {
		return res, nil
	}
	defer res.Body.Close()
	return nil, h.fault(method, res)
}

// fault says what an answer means for the person at the keyboard.
func (h *hub) fault(method string, res *http.Response) error {
	said := cmp.Or(res.Header.Get("X-Error-Message"), firstLine(res.Body), res.Status)
	page := h.endpoint + "/datasets/" + h.repo
	switch code := res.Header.Get("X-Error-Code"); {
	case code == "GatedRepo" && h.token == "":
		return fmt.Errorf("repository %s is gated: accept its conditions at %s, and set HF_TOKEN to a token of that account (%s)", h.repo, page, said)
	case code == "GatedRepo":
		return fmt.Errorf("repository %s is gated, and the account of the token has no access: accept its conditions at %s (%s)", h.repo, page, said)
	case code == "RevisionNotFound":
		return fmt.Errorf("repository %s has no revision %q: %w (%s)", h.repo, h.revision, errAbsent, said)
	case res.StatusCode == http.StatusUnauthorized && h.token != "" && code != "RepoNotFound":
		return fmt.Errorf("the Hub does not accept the token (HF_TOKEN, or the file of `hf auth login`): it is wrong or has expired (%s)", said)
	case res.StatusCode == http.StatusForbidden:
		return fmt.Errorf("the account of the token may not do this at %s; it needs the right to write (%s)", page, said)
	case code == "RepoNotFound" || res.StatusCode == http.StatusUnauthorized:
		return fmt.Errorf("dataset repository %s does not exist, or is private and HF_TOKEN does not open it: %w (%s)", h.repo, errAbsent, said)
	case res.StatusCode == http.StatusNotFound:
		return fmt.Errorf("%s %s: %w (%s)", method, res.Request.URL.Path, errAbsent, said)
	case res.StatusCode == http.StatusPreconditionFailed:
		return fmt.Errorf("somebody else changed %s meanwhile; push again (%s)", h.repo, said)
	case res.StatusCode >= 500 || res.StatusCode == http.StatusTooManyRequests:
		return transient(fmt.Errorf("%s %s: %s", method, res.Request.URL.Path, said))
	}
	return fmt.Errorf("%s %s: %s (%s)", method, res.Request.URL.Path, res.Status, said)
}

func firstLine(r io.Reader) string {
	b, _ := io.ReadAll(io.LimitReader(r, 500))
	line, _, _ := strings.Cut(strings.TrimSpace(string(b)), "\n")
	return line
}

// call sends JSON and reads JSON; in and out may be nil.
func (h *hub) call(ctx context.Context, method, address string, in, out any) (http.Header, error) {
	header := map[string]string{"Accept": "application/json"}
	var payload []byte
	if in != nil {
		var err error
		if payload, err = json.Marshal(in); err != nil {
			return nil, err
		}
		header["Content-Type"] = "application/json"
	}
	res, err := h.request(ctx, method, address, header, payload)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if out == nil {
		_, err = io.Copy(io.Discard, res.Body)
	} else {
		err = json.NewDecoder(res.Body).Decode(out)
	}
	if err != nil {
		return nil, fmt.Errorf("answer of %s: %w", address, err)
	}
	return res.Header, nil
}

// treeEntry is a file or folder of a repository.
type treeEntry struct {
	Type string `json:"type"`
	Path string `json:"path"`
	Size int64  `json:"size"`
	OID  string `json:"oid"`
	LFS  *struct {
		OID  string `json:"oid"`
		Size int64  `json:"size"`
	} `json:"lfs"`
}

func (h *hub) list(ctx context.Context) (files []File, version string, err error) {
	var at struct {
		SHA string `json:"sha"`
	}
	if _, err := h.call(ctx, http.MethodGet, h.api("datasets/%s/revision/%s", h.repo, url.PathEscape(h.revision)), nil, &at); err != nil {
		return nil, "", err
	}
	h.commit = at.SHA // so that all files are of one state
	next := h.api("datasets/%s/tree/%s?recursive=true&expand=false", h.repo, url.PathEscape(h.commit))
	for next != "" {
		var page []treeEntry
		header, err := h.call(ctx, http.MethodGet, next, nil, &page)
		if err != nil {
			return nil, "", err
		}
		for _, e := range page {
			if e.Type != "file" || strings.HasPrefix(e.Path, ".") || strings.Contains(e.Path, "/.") {
				continue // .gitattributes and the like are the repository's own
			}
			if err := safePath(e.Path); err != nil {
				return nil, "", err
			}
			f := File{Path: e.Path, Size: e.Size, Hash: Hash{GitBlob, strings.ToLower(e.OID)}}
			if e.LFS != nil {
				f.Size, f.Hash = e.LFS.Size, Hash{SHA256, strings.ToLower(e.LFS.OID)}
			}
			files = append(files, f)
		}
		next = nextPage(header)
	}
	return files, h.commit, nil
}

// nextPage reads the Link header. Specification: RFC 8288.
func nextPage(header http.Header) string {
	for _, link := range strings.Split(header.Get("Link"), ",") {
		target, params, _ := strings.Cut(link, ">")
		if strings.Contains(params, `rel="next"`) {
			return strings.TrimPrefix(strings.TrimSpace(target), "<")
		}
	}
	return ""
}

func (h *hub) get(ctx context.Context, f File, from int64) (body, error) {
	var parts []string
	for _, p := range strings.Split(f.Path, "/") {
		parts = append(parts, url.PathEscape(p))
	}
	address := fmt.Sprintf("%s/datasets/%s/resolve/%s/%s", h.endpoint, h.repo, h.commit, strings.Join(parts, "/"))
	header := map[string]string{"Accept-Encoding": "identity"}
	if from > 0 {
		header["Range"] = fmt.Sprintf("bytes=%d-", from)
	}
	res, err := h.once(ctx, http.MethodGet, address, header, http.NoBody) // the download repeats it
	if err != nil {
		return nil, err
	}
	if res.StatusCode != http.StatusPartialContent {
		from = 0
	}
	return objectBody{res.Body, from}, nil
}
