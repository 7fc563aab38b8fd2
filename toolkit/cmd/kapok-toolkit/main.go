// Command kapok-toolkit makes and extends projects of operators, and generates their code and
// manifests. Command kapok runs it for kapok init, create, edit, delete, upgrade, generate, vet,
// import, explain and alpha. It is a program of its own, so that servers do not link the libraries
// of scaffolding and generators.
package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"

	"github.com/kapok-dev/kapok/toolkit/compat"
	"github.com/kapok-dev/kapok/toolkit/generate"
	"github.com/kapok-dev/kapok/toolkit/internal/protoc"
	"github.com/kapok-dev/kapok/toolkit/scaffold"
)

// Exit codes.
const (
	exitFailure = 1
	exitUsage   = 2
)

func main() { os.Exit(run(os.Args[1:])) }

func run(args []string) int {
	switch {
	case generate.IsProtobuf(os.Args[0]):
		if err := generate.Protobuf(); err != nil {
			return fail(exitFailure, err)
		}
		return 0
	case protoc.IsProgram(os.Args[0]):
		if err := protoc.Run(context.Background(), os.Args[0], args); err != nil {
			return fail(exitFailure, err)
		}
		return 0
	case isVettool(args):
		vettool()
	case len(args) > 0 && args[0] == "vet":
		return vetCommand(args[1:])
	case len(args) > 0 && args[0] == "generate":
		return generateCommand(args[1:])
	case len(args) > 0 && args[0] == "alpha":
		return alphaCommand(args[1:])
	case len(args) > 0 && args[0] == "explain":
		return explainCommand(args[1:])
	case len(args) > 0 && args[0] == "import":
		return importCommand(args[1:])
	case len(args) > 0 && args[0] == "delete":
		return deleteCommand(args[1:])
	case len(args) > 0 && args[0] == "upgrade":
		return upgradeCommand(args[1:])
	case len(args) > 0 && slices.Contains(scaffold.Commands, args[0]):
		if err := scaffold.Run(scaffold.Options{Args: args, Version: version(), Source: source(), RenderOnly: os.Getenv(scaffold.RenderOnly) != ""}); err != nil {
			return fail(exitFailure, err)
		}
		return 0
	}
	return fail(exitUsage, fmt.Errorf("want one of the commands %v, delete, upgrade, generate, vet, import, explain and alpha generate", scaffold.Commands))
}

// interruptible returns a context that ends with the first signal. The second one ends the process:
// a generator may not end.
func interruptible() (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}

func fail(code int, err error) int {
	fmt.Fprintf(os.Stderr, "kapok: %v\n", err)
	return code
}

const generateHelp = `Generate code and manifests from Go types and their markers.

Usage:
  kapok generate [--check] [--compat COMMIT] [--watch] [GENERATOR[:OPTION=VALUE,...]...] [PACKAGE...]
  kapok generate [GENERATOR...] -w

Without generators, in a project: what make generate manifests does. That is deep copies beside the types,
CustomResourceDefinitions in config/crd/bases, config/rbac/role.yaml and config/webhook/manifests.yaml.
It works in each directory of the project, and names files as from its root.
PACKAGE is a pattern such as ./api/... (default ./...); paths=PATTERN is the same.

Generators of controller-gen, with its options and output:... rules:
  object crd rbac webhook applyconfiguration schemapatch

Generators of k8s.io/code-generator, for the packages and types that have their tags, in the files that
kube_codegen.sh writes:
  deepcopy     zz_generated.deepcopy.go (+k8s:deepcopy-gen)
  defaulter    zz_generated.defaults.go (+k8s:defaulter-gen)
  conversion   zz_generated.conversion.go (+k8s:conversion-gen); peers={PACKAGE;...} have more conversions
  validation   zz_generated.validations.go (+k8s:validation-gen)
  helpers      the four above
  register     zz_generated.register.go (+groupName)
  lifecycle    zz_generated.prerelease-lifecycle.go (+k8s:prerelease-lifecycle-gen)
  client       clientset, listers and informers below dir=DIRECTORY (+genclient). pkg=IMPORTPATH,
               watch=false (no listers and informers), applyconfig=true, applyconfigSchema=FILE,
               applyconfigExternals={TYPE:PACKAGE;...}, plurals={TYPE:PLURAL;...}, protobuf=true;
               names of directories: clientset, versioned, listers, informers, applyconfigName
  openapi      OpenAPI definitions in dir=DIRECTORY (+k8s:openapi-gen). pkg=IMPORTPATH,
               packages={PACKAGE;...}, report=FILE, modelNames=FILE
  protobuf     generated.proto, generated.pb.go, and the tags of fields that have none (+k8s:protobuf-gen=package);
               neither protoc nor goimports is needed
  Each has headerFile=FILE (default hack/boilerplate.go.txt, if it exists), and all but openapi and protobuf
  have lint={RULE;...}, the rules known-tags-only and require-explicit-disablement of code-generator.

Generators for the users of an API, which read the types and markers of crd:
  docs         a page for each version: GROUP_VERSION.md, or .html with docs:format=html
  jsonschema   JSON schemas for editors: GROUP/KIND_VERSION.json
  samples      manifests with every field: GROUP_VERSION_KIND.yaml
  typescript   types for TypeScript: GROUP_VERSION.ts
  Each writes to config/NAME, or where output:NAME:dir=DIRECTORY says.

Unknown markers and misspelt tags are errors. If there is an error, nothing is written. Only files that change are written.
A run whose sources and results have not changed since the last one does nothing.

Examples:
  kapok generate
  kapok generate crd ./api/... output:crd:dir=crds
  kapok generate helpers client:dir=pkg/generated ./pkg/apis/...

Flags:
      --allow-unknown-markers
                         warn of unknown markers, which are errors otherwise: other programs may read them
      --check            change nothing, and fail if a file is not current
      --compat COMMIT    fail if definitions have changed since a commit of git, such as a tag, in ways that break
                         their users: fields that are gone, new required ones, narrower values
  -h, --help             help for generate
      --watch            generate again after each change of a source, until it is interrupted
  -w                     list the markers of the generators; -ww, -www with details, -wwww as JSON
`

func generateCommand(args []string) int {
	o := generate.Options{}
	level, since, watches := 0, "", false
	for i := 0; i < len(args); i++ {
		arg := args[i]
		switch value, isCompat := strings.CutPrefix(arg, "--compat="); {
		case isCompat:
			since = value
		case arg == "--compat":
			if i++; i == len(args) {
				return fail(exitUsage, errors.New("--compat needs a commit of git, such as v1.2.0"))
			}
			since = args[i]
		case arg == "-h" || arg == "--help":
			fmt.Print(generateHelp)
			return 0
		case arg == "--check":
			o.Check = true
		case arg == "--allow-unknown-markers":
			o.AllowUnknown = true
		case arg == "--watch":
			watches = true
		case arg == "--which-markers":
			level++
		case len(arg) > 1 && arg[0] == '-' && strings.Trim(arg[1:], "w") == "":
			level += len(arg) - 1
		case len(arg) > 0 && arg[0] == '-':
			return fail(exitUsage, fmt.Errorf("unknown flag %s; kapok generate --help lists all", arg))
		default:
			o.Args = append(o.Args, arg)
		}
	}
	if level > 0 {
		if err := generate.Markers(os.Stdout, o.Args, level); err != nil {
			return fail(exitUsage, err)
		}
		return 0
	}
	if len(o.Args) == 0 {
		if err := toProject(); err != nil {
			return fail(exitFailure, err)
		}
	}
	ctx, stop := interruptible()
	defer stop()
	if watches {
		if err := watch(ctx, slices.DeleteFunc(slices.Clone(args), func(arg string) bool { return arg == "--watch" })); err != nil {
			return fail(exitFailure, err)
		}
		return 0
	}
	result, err := generate.Run(ctx, o)
	if err != nil {
		return fail(exitFailure, err)
	}
	if !o.Check {
		for _, name := range result.Written {
			fmt.Println(name)
		}
		for _, name := range result.Removed {
			fmt.Printf("%s (removed: nothing generates it)\n", name)
		}
	}
	for _, text := range result.Warnings {
		fmt.Fprintf(os.Stderr, "kapok: %s\n", text)
	}
	for _, name := range result.Orphans {
		fmt.Fprintf(os.Stderr, "kapok: %s: no type has this definition; remove the file if the kind is gone\n", name)
	}
	if stale := append(result.Written, result.Removed...); o.Check && len(stale) > 0 {
		return fail(exitFailure, fmt.Errorf("not current: %s; run kapok generate", strings.Join(stale, ", ")))
	}
	if since != "" {
		return compare(ctx, since, result.ManifestDirs)
	}
	return 0
}

// toProject changes to the root of the project in which the working directory is, if it is in one:
// //go:generate kapok generate runs in the directory of its package.
func toProject() error {
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	for root := dir; ; root = filepath.Dir(root) {
		if info, err := os.Stat(filepath.Join(root, "PROJECT")); err == nil && info.Mode().IsRegular() {
			return os.Chdir(root)
		}
		if _, err := os.Stat(filepath.Join(root, "go.mod")); err == nil || root == filepath.Dir(root) {
			return nil // the module is no project
		}
	}
}

// compare prints the changes of definitions since a commit that break their users.
func compare(ctx context.Context, since string, dirs []string) int {
	changes, err := compat.Since(ctx, since, dirs)
	if err != nil {
		return fail(exitFailure, err)
	}
	for _, name := range slices.Sorted(maps.Keys(changes)) {
		for _, change := range changes[name] {
			fmt.Fprintf(os.Stderr, "%s: %s\n", name, change)
		}
	}
	if len(changes) > 0 {
		return fail(exitFailure, fmt.Errorf("definitions have changed since %s in ways that break their users: see above", since))
	}
	return 0
}

func alphaCommand(args []string) int {
	switch {
	case len(args) == 0 || args[0] == "-h" || args[0] == "--help":
		args = []string{"--help"}
	case args[0] != "generate":
		return fail(exitUsage, fmt.Errorf("unknown command %q for kapok alpha: only generate is here; kapok upgrade does what update does", args[0]))
	default:
		args = args[1:]
	}
	self, err := os.Executable()
	if err != nil {
		return fail(exitFailure, err)
	}
	ctx, stop := interruptible()
	defer stop()
	if err := scaffold.Regenerate(ctx, self, args, os.Stdout); err != nil {
		return fail(exitFailure, err)
	}
	return 0
}

func deleteCommand(args []string) int {
	if len(args) == 0 {
		args = []string{"--help"}
	}
	self, err := os.Executable()
	if err != nil {
		return fail(exitFailure, err)
	}
	ctx, stop := interruptible()
	defer stop()
	if err := scaffold.Delete(ctx, self, args, os.Stdout); err != nil {
		return fail(exitFailure, err)
	}
	return 0
}

func upgradeCommand(args []string) int {
	self, err := os.Executable()
	if err != nil {
		return fail(exitFailure, err)
	}
	ctx, stop := interruptible()
	defer stop()
	err = scaffold.Upgrade(ctx, scaffold.UpgradeOptions{Self: self, Args: args, Version: version(), Source: source(), Out: os.Stdout})
	if err != nil {
		return fail(exitFailure, err)
	}
	return 0
}

const explainHelp = `Explain a marker of the generators of controller-gen.

Usage:
  kapok explain MARKER

Example:
  kapok explain +kubebuilder:validation:MinLength

To list all markers, run kapok generate -w.
`

func explainCommand(args []string) int {
	switch {
	case slices.Contains(args, "-h") || slices.Contains(args, "--help"):
		fmt.Print(explainHelp)
		return 0
	case len(args) != 1:
		return fail(exitUsage, fmt.Errorf("got %d arguments: want one marker, such as +kubebuilder:validation:MinLength", len(args)))
	}
	if err := generate.Explain(os.Stdout, args[0]); err != nil {
		return fail(exitUsage, err)
	}
	return 0
}

// version returns the version of this module if it is a published one, and "" for builds of a
// clone.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "(devel)" {
		return ""
	}
	return info.Main.Version
}

// source returns the directory of the clone of Kapok in which this program was built, "" if there
// is none any more, or if the program was built with -trimpath.
func source() string {
	if dir := os.Getenv("KAPOK_SOURCE"); dir != "" {
		return dir
	}
	_, file, _, ok := runtime.Caller(0)
	if !ok || !filepath.IsAbs(file) {
		return ""
	}
	dir := filepath.Join(filepath.Dir(file), "..", "..", "..")
	if _, err := os.Stat(filepath.Join(dir, "kapoktest", "doc.go")); err != nil {
		return ""
	}
	return dir
}
