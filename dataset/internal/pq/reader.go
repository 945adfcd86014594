package pq

import (
	"fmt"
	"io"
)

// OpenReader reads the footer of a Parquet file of size bytes that lies anywhere; name is for messages. The caller closes r
// after the File, which needs no Close.
func OpenReader(r io.ReaderAt, size int64, name string) (*File, error) {
	pf, err := openParquet(r, size)
	if err != nil {
		return nil, fmt.Errorf("read parquet footer of %s: %w", name, err)
	}
	return &File{path: name, pf: pf}, nil
}
