//go:build !unix

package folderlock

import "os"

// held cannot tell without flock.
func held(*os.File) bool { return false }
