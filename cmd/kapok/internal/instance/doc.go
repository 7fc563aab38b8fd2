// Package instance has the servers of a user by their names: where each one keeps its data, which
// of them run, and which one a command without a name means.
//
// All are below one directory, the home:
//
//	kapok/                       the data directory of the instance "default"
//	kapok/instances/NAME/        the data directories of all others
//	kapok/instances/.deleted-*/  what a deletion removes, or left behind when it was interrupted
//
// A data directory has three files of this package beside those of the server:
//
//	instance.json  the Record
//	instance.lock  locked by the process that runs the instance
//	kapok.log      what it printed
//
// An instance runs while its lock is held. The system releases the lock when the process ends,
// however it ends, so that nothing that a killed process leaves behind has to be judged: a process
// ID in a record is for display where the system cannot name the holder of a lock.
//
// A folder with a file kapok.yaml is a project, and has an instance of its own, whose name has a
// hash of the path: two checkouts have two instances.
package instance
