//go:build !linux && !darwin

package process

import "io/fs"

const supported = false

func machine(string) (memory, disk int64) { return 0, 0 }

func userID() int { return -1 }

func kernel() string { return "" }

func diskUsage(info fs.FileInfo) int64 { return info.Size() }
