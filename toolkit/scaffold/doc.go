// Package scaffold makes and extends projects of operators: kapok init, create api, create webhook,
// edit. It is the command line of kubebuilder 4 with its plugins, and so has its flags, its PROJECT
// file and its layout: either program can go on with a project of the other. It differs in this:
//
//   - It needs Go alone: no make, no controller-gen, no envtest. Code and manifests are generated
//     in the process (package generate).
//   - Test suites start a server of Kapok in the test process. --test-env=envtest keeps those of
//     kubebuilder.
//   - A command that fails leaves the project as it was. kubebuilder leaves what it has written so
//     far.
//   - Without a terminal it asks nothing: create api makes a resource and a controller, and for
//     further versions of a kind that has a controller only the resource.
//
// kubebuilder's libraries read os.Args, work in the working directory, and print to standard
// output. So does Run, which must run only once in a process.
package scaffold
