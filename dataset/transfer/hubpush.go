package transfer

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/pinch-robotics/pinch/dataset"
)

// Sizes of requests that the Hub recommends: files per preupload, objects per LFS batch, operations per commit, and bytes of a file that
// go along to tell text from binaries.
const (
	preuploadFiles = 256
	batchObjects   = 100
	commitFiles    = 1000
	sampleBytes    = 512
)

func (h *hub) push(ctx context.Context, files, keep []local, remove []string, done func(local)) (string, error) {
	if err := h.create(ctx); err != nil {
		return "", err
	}
	regular, large, err := h.uploadModes(ctx, files)
	if err != nil {
		return "", err
	}
	if err := h.sendLarge(ctx, large, done); err != nil {
		return "", err
	}
	version, err := h.commitAll(ctx, regular, large, remove, keep, done)
	if err != nil {
		return "", err
	}
	return version, h.tag(ctx, files, keep, version)
}

// create makes the repository unless it is there.
func (h *hub) create(ctx context.Context) error {
	owner, name, _ := strings.Cut(h.repo, "/")
	in := map[string]any{"type": "dataset", "name": name, "organization": owner, "private": !h.o.Public}
	_, err := h.call(ctx, http.MethodGet, h.api("datasets/%s", h.repo), nil, nil)
	if !errors.Is(err, errAbsent) {
		return err
	}
	if _, err := h.call(ctx, http.MethodPost, h.api("repos/create"), in, nil); err != nil {
		return fmt.Errorf("make repository %s: %w", h.repo, err)
	}
	return nil
}

// uploadModes asks the Hub which files it wants in the commit itself, and which in its file storage.
func (h *hub) uploadModes(ctx context.Context, files []local) (regular, large []local, err error) {
	type entry struct {
		Path   string `json:"path"`
		Sample string `json:"sample"`
		Size   int64  `json:"size"`
	}
	for part := range slices.Chunk(files, preuploadFiles) {
		var in struct {
			Files []entry `json:"files"`
		}
		for _, f := range part {
			sample, err := head(f.file, sampleBytes)
			if err != nil {
				return nil, nil, err
			}
			in.Files = append(in.Files, entry{f.path, base64.StdEncoding.EncodeToString(sample), f.size})
		}
		var out struct {
			Files []struct {
				Path string `json:"path"`
				Mode string `json:"uploadMode"`
			} `json:"files"`
		}
		if _, err := h.call(ctx, http.MethodPost, h.api("datasets/%s/preupload/%s", h.repo, url.PathEscape(h.revision)), in, &out); err != nil {
			return nil, nil, err
		}
		modes := map[string]string{}
		for _, f := range out.Files {
			modes[f.Path] = f.Mode
		}
		for _, f := range part {
			switch modes[f.path] {
			case "regular":
				regular = append(regular, f)
			case "lfs":
				large = append(large, f)
			default:
				return nil, nil, fmt.Errorf("the Hub has no way of uploading for %s (%q)", f.path, modes[f.path])
			}
		}
	}
	return regular, large, nil
}

func head(path string, n int) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b := make([]byte, n)
	k, err := io.ReadFull(f, b)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = nil
	}
	return b[:k], err
}

// lfsAction is where an object is to be sent, or confirmed.
type lfsAction struct {
	Href   string            `json:"href"`
	Header map[string]string `json:"header"`
}

type lfsObject struct {
	OID     string `json:"oid"`
	Size    int64  `json:"size"`
	Actions *struct {
		Upload *lfsAction `json:"upload"`
		Verify *lfsAction `json:"verify"`
	} `json:"actions,omitempty"`
	Error *struct {
		Message string `json:"message"`
	} `json:"error,omitempty"`
}

// sendLarge sends the objects that the file storage lacks; so a push that was interrupted goes on with the next file.
func (h *hub) sendLarge(ctx context.Context, files []local, done func(local)) error {
	for part := range slices.Chunk(files, batchObjects) {
		in := map[string]any{"operation": "upload", "transfers": []string{"basic", "multipart"}, "hash_algo": "sha256", "ref": map[string]string{"name": h.revision}}
		var objects []lfsObject
		byOID := map[string]local{}
		for _, f := range part {
			if _, twice := byOID[f.sha256]; !twice {
				objects = append(objects, lfsObject{OID: f.sha256, Size: f.size})
			}
			byOID[f.sha256] = f
		}
		in["objects"] = objects
		var out struct {
			Objects []lfsObject `json:"objects"`
		}
		if _, err := h.lfs(ctx, h.endpoint+"/datasets/"+h.repo+".git/info/lfs/objects/batch", in, &out); err != nil {
			return err
		}
		g, gctx := errgroup.WithContext(ctx)
		g.SetLimit(h.o.Workers)
		for _, o := range out.Objects {
			f, ok := byOID[o.OID]
			if !ok {
				return fmt.Errorf("the Hub's file storage answers for an object %q that was not asked for", o.OID)
			}
			g.Go(func() error {
				if err := h.object(gctx, o, f); err != nil {
					return fmt.Errorf("send %s: %w", f.path, err)
				}
				return nil
			})
		}
		if err := g.Wait(); err != nil {
			return err
		}
		for _, f := range part {
			done(f)
		}
	}
	return nil
}

func (h *hub) lfs(ctx context.Context, address string, in, out any) (http.Header, error) {
	payload, err := json.Marshal(in)
	if err != nil {
		return nil, err
	}
	const kind = "application/vnd.git-lfs+json"
	res, err := h.request(ctx, http.MethodPost, address, map[string]string{"Accept": kind, "Content-Type": kind}, payload)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if out != nil {
		if err := json.NewDecoder(res.Body).Decode(out); err != nil {
			return nil, fmt.Errorf("answer of %s: %w", address, err)
		}
	}
	return res.Header, nil
}

func (h *hub) object(ctx context.Context, o lfsObject, f local) error {
	switch {
	case o.Error != nil:
		return errors.New(o.Error.Message)
	case o.Actions == nil || o.Actions.Upload == nil:
		return nil // it is there
	}
	up := o.Actions.Upload
	var err error
	if chunk := up.Header["chunk_size"]; chunk != "" {
		err = h.inParts(ctx, up, chunk, f)
	} else {
		_, err = h.sendRange(ctx, up.Href, up.Header, f, 0, f.size)
	}
	if err != nil || o.Actions.Verify == nil {
		return err
	}
	_, err = h.call(ctx, http.MethodPost, o.Actions.Verify.Href, map[string]any{"oid": f.sha256, "size": f.size}, nil)
	return err
}

// inParts sends an object in the parts that the storage names: header "1", "2", ... are their addresses.
func (h *hub) inParts(ctx context.Context, up *lfsAction, chunk string, f local) error {
	size, err := strconv.ParseInt(chunk, 10, 64)
	if err != nil || size <= 0 {
		return fmt.Errorf("the Hub's file storage wants parts of %q bytes", chunk)
	}
	type part struct {
		Number int    `json:"partNumber"`
		ETag   string `json:"etag"`
	}
	var parts []part
	for from, n := int64(0), 1; from < f.size; from, n = from+size, n+1 {
		address := up.Header[strconv.Itoa(n)]
		if address == "" {
			address = up.Header[fmt.Sprintf("%05d", n)]
		}
		if address == "" {
			return fmt.Errorf("the Hub's file storage has no address for part %d", n)
		}
		etag, err := h.sendRange(ctx, address, nil, f, from, min(size, f.size-from))
		if err != nil {
			return err
		}
		parts = append(parts, part{n, etag})
	}
	_, err = h.lfs(ctx, up.Href, map[string]any{"oid": f.sha256, "parts": parts}, nil)
	return err
}

// sendRange puts a part of a file and gives its ETag.
func (h *hub) sendRange(ctx context.Context, address string, header map[string]string, f local, from, n int64) (string, error) {
	for try := 0; ; try++ {
		etag, err := h.sendOnce(ctx, address, header, f, from, n)
		if err == nil || !errors.Is(err, errTransient) || try >= attempts {
			return etag, err
		}
		if err := h.o.sleep(ctx, backoff(try)); err != nil {
			return "", err
		}
	}
}

func (h *hub) sendOnce(ctx context.Context, address string, header map[string]string, f local, from, n int64) (string, error) {
	in, err := os.Open(f.file)
	if err != nil {
		return "", err
	}
	defer in.Close()
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, address, io.NewSectionReader(in, from, n))
	if err != nil {
		return "", err
	}
	req.ContentLength = n
	for k, v := range header {
		req.Header.Set(k, v)
	}
	res, err := h.o.Client.Do(req) // signed address: without the token
	if err != nil {
		return "", transient(err)
	}
	defer res.Body.Close()
	if res.StatusCode >= 400 {
		return "", h.fault(http.MethodPut, res)
	}
	return res.Header.Get("ETag"), nil
}

// operation is one line of a commit.
type operation struct {
	Key   string `json:"key"`
	Value any    `json:"value"`
}

// commitAll commits what was sent, in as few commits as the Hub takes; removals and infoFile are in the last one.
func (h *hub) commitAll(ctx context.Context, regular, large []local, remove []string, keep []local, done func(local)) (string, error) {
	var ops, last []operation
	add := func(f local, op operation) {
		if f.path == infoFile {
			last = append(last, op)
		} else {
			ops = append(ops, op)
		}
	}
	for _, f := range large {
		add(f, operation{"lfsFile", map[string]any{"path": f.path, "algo": "sha256", "oid": f.sha256, "size": f.size}})
	}
	for _, f := range regular {
		content, err := os.ReadFile(f.file)
		if err != nil {
			return "", err
		}
		add(f, operation{"file", map[string]any{"path": f.path, "encoding": "base64", "content": base64.StdEncoding.EncodeToString(content)}})
	}
	for _, p := range remove {
		last = append(last, operation{"deletedFile", map[string]any{"path": p}})
	}
	if h.commit == "" && !slices.ContainsFunc(append(append(append([]local{}, regular...), large...), keep...), func(f local) bool { return f.path == "README.md" }) {
		last = append(last, operation{"file", map[string]any{"path": "README.md", "encoding": "base64", "content": base64.StdEncoding.EncodeToString([]byte(card))}})
	}
	version := h.commit
	parts := slices.Collect(slices.Chunk(ops, commitFiles))
	if n := len(parts); n > 0 && len(parts[n-1])+len(last) <= commitFiles {
		last, parts = append(parts[n-1], last...), parts[:n-1]
	}
	for _, part := range append(parts, last) {
		if len(part) == 0 {
			continue
		}
		var err error
		if version, err = h.commitOne(ctx, part, version); err != nil {
			return "", err
		}
	}
	for _, f := range regular {
		done(f)
	}
	return version, nil
}

// card is the page of a repository that has none. Source: the card that LeRobot writes.
const card = `---
license: other
task_categories:
- robotics
tags:
- LeRobot
configs:
- config_name: default
  data_files: data/*/*.parquet
---

This dataset is in the LeRobot format. It was written by pinch.
`

func (h *hub) commitOne(ctx context.Context, ops []operation, parent string) (string, error) {
	message := h.o.Message
	if message == "" {
		message = "pinch data push"
	}
	header := map[string]any{"summary": message, "description": ""}
	if parent != "" {
		header["parentCommit"] = parent // another push in between is refused
	}
	var payload bytes.Buffer
	enc := json.NewEncoder(&payload)
	for _, op := range append([]operation{{"header", header}}, ops...) {
		if err := enc.Encode(op); err != nil {
			return "", err
		}
	}
	// Sent once: a commit whose answer was lost would be made twice.
	res, err := h.once(ctx, http.MethodPost, h.api("datasets/%s/commit/%s", h.repo, url.PathEscape(h.revision)),
		map[string]string{"Content-Type": "application/x-ndjson"}, bytes.NewReader(payload.Bytes()))
	if err != nil {
		return "", fmt.Errorf("commit: %w", err)
	}
	defer res.Body.Close()
	var out struct {
		OID string `json:"commitOid"`
	}
	if err := json.NewDecoder(res.Body).Decode(&out); err != nil {
		return "", fmt.Errorf("answer to the commit: %w", err)
	}
	return out.OID, nil
}

// tag names the commit by the version of the format, as the official loader wants of datasets on the Hub.
func (h *hub) tag(ctx context.Context, files, keep []local, version string) error {
	all := append(append([]local{}, files...), keep...)
	i := slices.IndexFunc(all, func(f local) bool { return f.path == infoFile })
	if i < 0 || h.revision != defaultRevision {
		return nil
	}
	d, err := dataset.Open(strings.TrimSuffix(all[i].file, infoFile))
	if err != nil {
		return err
	}
	name := d.Info().CodebaseVersion
	_, err = h.call(ctx, http.MethodDelete, h.api("datasets/%s/tag/%s", h.repo, url.PathEscape(name)), nil, nil)
	if err != nil && !errors.Is(err, errAbsent) {
		return err
	}
	if _, err := h.call(ctx, http.MethodPost, h.api("datasets/%s/tag/%s", h.repo, url.PathEscape(version)), map[string]string{"tag": name}, nil); err != nil {
		return fmt.Errorf("tag %s: %w", name, err)
	}
	return nil
}
