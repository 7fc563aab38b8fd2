// Package powercut cuts the power of a server during writes: unsynced data is lost, and
// acknowledged writes must exist when the server starts again.
//
// The data directory is on a [Disk], a file system (FUSE) that distinguishes written and synced
// data. The power is cut at a random write, sync or change of a directory, which may still happen
// in part, including those of a start or a recovery. Then, for each file and directory at random,
//
//   - data written since the last sync of a file is lost, remains, or remains in part, in sectors
//     of 512 bytes in any order; so does the length;
//   - names that were created, renamed or removed since the last sync of their directory are as at
//     that sync, as at the end, or as at some time in between. A sync of a file does not sync its
//     name.
//
// Writers record what was acknowledged. After each start every object must have its acknowledged
// value, or that of the write without a response; resourceVersions must not go back; kapok doctor
// must find no problem; and once a server has served, its certificates and tokens must not change.
//
// The same holds for kapok snapshot save and restore: all or nothing, and all once they have
// succeeded.
//
// The test must find lost writes where there are some: on a disk whose syncs have no effect, and
// with kapok up --unsafe-no-fsync.
//
// It needs Linux, root and /dev/fuse, and is skipped elsewhere. It is a separate module, as nothing
// else needs FUSE.
//
//	go test .                    8 rounds; in test/powercut
//	go test . -long              200 rounds
//	KAPOK_SEED=random go test .  other choices; their outcomes depend on timing, too
package powercut
