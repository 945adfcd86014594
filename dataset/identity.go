package dataset

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"maps"
	"math"
	"math/bits"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pinch-robotics/pinch/dataset/internal/pq"
	"github.com/pinch-robotics/pinch/dataset/video"
)

// identityVersion changes when the way of hashing does. 2: features sum up to an episode's hash, which is stored; the five default
// columns are left out, since they follow from the rest.
const identityVersion = "pinch dataset identity 2"

// contentColumn is the column of meta/episodes that holds the content hash of an episode: eight hex digits that name the features
// it covers, "-", and 64 hex digits. Editing by pinch keeps it right. Tools that do not know it copy it or lose it: with another
// set of features it no longer counts, and the hash is computed again.
const contentColumn = "content_sha256"

// hasher writes values with their lengths, so that no two contents give the same bytes.
type hasher struct{ h hash.Hash }

func newHasher() hasher { return hasher{sha256.New()} }

func (h hasher) number(v uint64) {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], v)
	h.h.Write(b[:])
}

func (h hasher) text(s string) {
	h.number(uint64(len(s)))
	h.h.Write([]byte(s))
}

func (h hasher) values(v any) error {
	switch v := v.(type) {
	case []string:
		for _, s := range v {
			h.text(s)
		}
		return nil
	case pq.Pictures:
		return h.values(v.Bytes)
	case []bool:
		b := make([]byte, len(v))
		for i, x := range v {
			if x {
				b[i] = 1
			}
		}
		h.h.Write(b)
		return nil
	default:
		return binary.Write(h.h, binary.LittleEndian, v)
	}
}

func (h hasher) sum() (s contentSum) {
	digest := h.h.Sum(nil)
	for i := range s {
		s[i] = binary.LittleEndian.Uint64(digest[8*i:])
	}
	return s
}

// contentSum is the sum modulo 2^256 of the hashes of an episode's features. So the hash after an edit follows from the one before
// and the features that changed. It tells whether data are the same; it is no protection against forgery.
type contentSum [4]uint64

func (s contentSum) plus(t contentSum) contentSum {
	var carry uint64
	for i := range s {
		s[i], carry = bits.Add64(s[i], t[i], carry)
	}
	return s
}

func (s contentSum) minus(t contentSum) contentSum {
	var borrow uint64
	for i := range s {
		s[i], borrow = bits.Sub64(s[i], t[i], borrow)
	}
	return s
}

// coverage names the features that a content hash covers, in eight hex digits.
func coverage(features []Feature) string {
	h := newHasher()
	for _, name := range contentNames(features) {
		h.text(name)
	}
	return hex.EncodeToString(h.h.Sum(nil)[:4])
}

// contentNames are the names of the features with content of their own, sorted.
func contentNames(features []Feature) []string {
	var names []string
	for _, f := range features {
		if !isDefault(f.Name) {
			names = append(names, f.Name)
		}
	}
	slices.Sort(names)
	return names
}

// encode is the stored form.
func (s contentSum) encode(features []Feature) string {
	var b []byte
	for i := len(s) - 1; i >= 0; i-- {
		b = binary.BigEndian.AppendUint64(b, s[i])
	}
	return coverage(features) + "-" + hex.EncodeToString(b)
}

// decodeContent reads the stored form; false when it is not there or covers other features.
func decodeContent(text string, features []Feature) (s contentSum, ok bool) {
	covers, digits, found := strings.Cut(text, "-")
	b, err := hex.DecodeString(digits)
	if !found || err != nil || len(b) != 32 || covers != coverage(features) {
		return s, false
	}
	for i := range s {
		s[i] = binary.BigEndian.Uint64(b[8*(3-i):])
	}
	return s, true
}

// featureSum begins the hash of one feature of one episode.
func featureSum(f Feature) hasher {
	h := newHasher()
	h.text(f.Name)
	h.text(string(f.DType))
	for _, n := range f.Shape {
		h.number(uint64(n))
	}
	h.number(math.MaxUint64)
	return h
}

// valuesSum is the hash of a feature's rows.
func valuesSum(f Feature, values any) (contentSum, error) {
	h := featureSum(f)
	err := h.values(values)
	return h.sum(), err
}

// videoSum is the hash of the coded pictures of count frames of an mp4.
func videoSum(f Feature, path string, first, count int) (contentSum, error) {
	info, err := video.Probe(path)
	if err != nil {
		return contentSum{}, err
	}
	h, n := featureSum(f), 0
	err = video.Packets(path, func(i int, data []byte) error {
		if i >= first && i < first+count {
			coded := video.Coded(info.Codec, data)
			h.number(uint64(len(coded)))
			h.h.Write(coded)
			n++
		}
		return nil
	})
	if err == nil && n != count {
		err = fmt.Errorf("%s gives %d frames from frame %d on, want %d", path, n, first, count)
	}
	return h.sum(), err
}

// tasksSum is the hash of which rows share a task: the texts themselves are hashed with the dataset.
func tasksSum(perRow []int64) (contentSum, error) {
	number := map[int64]int64{}
	pattern := make([]int64, len(perRow))
	for r, k := range perRow {
		if _, ok := number[k]; !ok {
			number[k] = int64(len(number))
		}
		pattern[r] = number[k]
	}
	return valuesSum(Feature{Name: TaskIndex}, pattern)
}

// content is the content hash of an episode: the stored one, else computed from all of it.
func (d *Dataset) content(e EpisodeMeta) (contentSum, error) {
	if s, ok := decodeContent(e.content, d.info.Features); ok {
		return s, nil
	}
	return d.computeContent(e)
}

func (d *Dataset) computeContent(e EpisodeMeta) (contentSum, error) {
	tasks, err := ReadColumn[int64](d, TaskIndex, e.Index)
	if err != nil {
		return contentSum{}, err
	}
	all, err := tasksSum(tasks)
	if err != nil {
		return contentSum{}, err
	}
	for _, f := range d.info.Features {
		if isDefault(f.Name) {
			continue
		}
		s, err := d.featureContent(f, e)
		if err != nil {
			return contentSum{}, err
		}
		all = all.plus(s)
	}
	return all, nil
}

// featureContent is one term of an episode's hash.
func (d *Dataset) featureContent(f Feature, e EpisodeMeta) (contentSum, error) {
	if f.DType == Video {
		span, ok := e.Videos[f.Name]
		if !ok {
			return contentSum{}, fmt.Errorf("episode %d has no video of %q", e.Index, f.Name)
		}
		return videoSum(f, filepath.Join(d.root, span.Path), span.FirstFrame, e.Length)
	}
	v, err := d.typedValues(f, e.Index)
	if err != nil {
		return contentSum{}, err
	}
	return valuesSum(f, v)
}

// typedValues reads a column in the type that info.json promises, where that type is written here.
func (d *Dataset) typedValues(f Feature, episode int) (any, error) {
	switch f.DType {
	case Float32:
		return ReadColumn[float32](d, f.Name, episode)
	case Float64:
		return ReadColumn[float64](d, f.Name, episode)
	case Int32:
		return ReadColumn[int32](d, f.Name, episode)
	case Int64:
		return ReadColumn[int64](d, f.Name, episode)
	case Bool:
		return ReadColumn[bool](d, f.Name, episode)
	case Image:
		return d.readPictures(f, episode)
	}
	return d.readValues(f, episode)
}

// Identity is a hash of the content: features, rate, tasks, rows, extra columns and encoded video of every episode,
// whatever the file layout (hex SHA-256). Two copies, or a copy before and after compaction, have the same identity; a
// dataset with a missing file has none. For datasets that pinch wrote it comes from the hashes in meta/episodes and reads no rows.
func (d *Dataset) Identity() (string, error) { return d.identity((*Dataset).content) }

// VerifyIdentity computes the identity from all rows and packets, whatever hashes are stored. It differs from Identity when something
// changed the data without correcting the hashes.
func (d *Dataset) VerifyIdentity() (string, error) { return d.identity((*Dataset).computeContent) }

func (d *Dataset) identity(content func(*Dataset, EpisodeMeta) (contentSum, error)) (string, error) {
	h := newHasher()
	h.text(identityVersion)
	h.number(uint64(d.info.FPS))
	h.text(d.info.RobotType)
	for _, f := range d.info.Features {
		h.text(f.Name)
		h.text(string(f.DType))
		for _, s := range f.Shape {
			h.number(uint64(s))
		}
		for _, n := range f.Names {
			h.text(n)
		}
		h.number(math.MaxUint64) // ends the lists
	}
	for i := range d.NumEpisodes() {
		e, err := d.at(i)
		if err == nil {
			err = d.identifyEpisode(h, e, content)
		}
		if err != nil {
			return "", fmt.Errorf("identify dataset %s: %w", d.root, err)
		}
	}
	return hex.EncodeToString(h.h.Sum(nil)), nil
}

func (d *Dataset) identifyEpisode(h hasher, e EpisodeMeta, content func(*Dataset, EpisodeMeta) (contentSum, error)) error {
	if missing := d.missing(e); len(missing) > 0 {
		return fmt.Errorf("episode %d: %s is missing", e.Index, missing[0])
	}
	s, err := content(d, e)
	if err != nil {
		return err
	}
	h.number(uint64(e.Length))
	for _, word := range s {
		h.number(word)
	}
	tasks, err := d.orderedTasks(e)
	if err != nil {
		return err
	}
	h.number(uint64(len(tasks)))
	for _, t := range tasks {
		h.text(t)
	}
	for _, name := range slices.Sorted(maps.Keys(e.Extra)) {
		h.text(name)
		h.text(fmt.Sprintf("%T %v", e.Extra[name], e.Extra[name]))
	}
	return nil
}

// orderedTasks are an episode's tasks in the order in which its rows use them.
func (d *Dataset) orderedTasks(e EpisodeMeta) ([]string, error) {
	if len(e.Tasks) == 1 {
		return e.Tasks, nil
	}
	rows, err := d.RowTasks(e.Index)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, t := range rows {
		if !slices.Contains(out, t) {
			out = append(out, t)
		}
	}
	return out, nil
}

// RowTasks returns the instruction of each row of an episode.
func (d *Dataset) RowTasks(episode int) ([]string, error) {
	index, err := ReadColumn[int64](d, TaskIndex, episode)
	if err != nil {
		return nil, err
	}
	out := make([]string, len(index))
	for r, i := range index {
		if i < 0 || int(i) >= len(d.tasks) {
			return nil, fmt.Errorf("row %d of episode %d has task_index %d, the dataset has %d tasks", r, episode, i, len(d.tasks))
		}
		out[r] = d.tasks[i]
	}
	return out, nil
}
