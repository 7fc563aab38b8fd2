package instance

import "io/fs"

// isTrusted reports true, as the folders of other users are not writable by default.
func isTrusted(fs.FileInfo) bool { return true }
