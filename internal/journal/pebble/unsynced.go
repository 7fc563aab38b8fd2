package pebble

import "github.com/cockroachdb/pebble/v2/vfs"

// unsynced is a file system without syncs: written data survives the process, but not a failure of
// the machine.
type unsynced struct{ vfs.FS }

func (u unsynced) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return neverSynced(u.FS.Create(name, c))
}

func (u unsynced) OpenReadWrite(name string, c vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	return neverSynced(u.FS.OpenReadWrite(name, c, opts...))
}

func (u unsynced) ReuseForWrite(from, to string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return neverSynced(u.FS.ReuseForWrite(from, to, c))
}

func (u unsynced) OpenDir(name string) (vfs.File, error) { return neverSynced(u.FS.OpenDir(name)) }

func (u unsynced) Unwrap() vfs.FS { return u.FS }

// unsyncedFile is a file of which every sync is done at once.
type unsyncedFile struct{ vfs.File }

func neverSynced(f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return unsyncedFile{f}, nil
}

func (unsyncedFile) Sync() error                { return nil }
func (unsyncedFile) SyncData() error            { return nil }
func (unsyncedFile) SyncTo(int64) (bool, error) { return true, nil }
