// Package protoc stands in for the programs that go-to-protobuf of k8s.io/code-generator runs:
// protoc with the plugin gogo, and goimports. A machine with Go alone has neither.
package protoc

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/protoutil"
	_ "github.com/gogo/protobuf/gogoproto" // the definitions of its options
	gogoproto "github.com/gogo/protobuf/proto"
	plugin "github.com/gogo/protobuf/protoc-gen-gogo/plugin"
	"github.com/gogo/protobuf/vanity/command"
	"golang.org/x/tools/imports"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
)

// Directories is the environment variable with a JSON object: the directories of Go packages that
// have a generated.proto, by their import paths.
const Directories = "KAPOK_PROTO_DIRECTORIES"

// gogoOptions is the file that defines the options of gogo, by the name under which generated files
// import it.
const gogoOptions = "github.com/gogo/protobuf/gogoproto/gogo.proto"

// IsProgram reports whether a program is started by the name of one of these.
func IsProgram(path string) bool {
	name := strings.TrimSuffix(filepath.Base(path), ".exe")
	return name == "protoc" || name == "goimports"
}

// Run is the program of this name with its arguments.
func Run(ctx context.Context, path string, args []string) error {
	if strings.TrimSuffix(filepath.Base(path), ".exe") == "goimports" {
		return sortImports(args)
	}
	return compile(ctx, args)
}

// sortImports is goimports -w FILE...
func sortImports(args []string) error {
	for _, name := range args {
		if name == "-w" {
			continue
		}
		data, err := imports.Process(name, nil, nil)
		if err != nil {
			return err
		}
		if err := os.WriteFile(name, data, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// compile is protoc --gogo_out=DIRECTORY FILE, where FILE is below DIRECTORY.
func compile(ctx context.Context, args []string) error {
	out, file := "", ""
	for i := 0; i < len(args); i++ {
		switch value, ok := strings.CutPrefix(args[i], "--gogo_out="); {
		case ok:
			out = value
		case args[i] == "-I":
			i++
		default:
			file = args[i]
		}
	}
	name, err := filepath.Rel(out, file)
	if err != nil {
		return err
	}
	directories := map[string]string{}
	if err := json.Unmarshal([]byte(os.Getenv(Directories)), &directories); err != nil {
		return fmt.Errorf("%s: %w", Directories, err)
	}
	request, err := read(ctx, filepath.ToSlash(name), directories)
	if err != nil {
		return err
	}
	response := command.Generate(request)
	if response.Error != nil {
		return fmt.Errorf("%s: %s", name, *response.Error)
	}
	for _, f := range response.File {
		if err := os.WriteFile(filepath.Join(out, filepath.FromSlash(f.GetName())), []byte(f.GetContent()), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// read compiles a file with those that it imports, and returns the request that protoc gives to a
// plugin.
func read(ctx context.Context, name string, directories map[string]string) (*plugin.CodeGeneratorRequest, error) {
	options, err := gogoDescriptor()
	if err != nil {
		return nil, err
	}
	find := protocompile.ResolverFunc(func(name string) (protocompile.SearchResult, error) {
		if name == gogoOptions {
			return protocompile.SearchResult{Proto: options}, nil
		}
		dir, ok := directories[strings.TrimSuffix(name, "/"+filepath.Base(name))]
		if !ok {
			return protocompile.SearchResult{}, fmt.Errorf("%s: no package that is used has this file", name)
		}
		data, err := os.ReadFile(filepath.Join(dir, filepath.Base(name)))
		return protocompile.SearchResult{Source: bytes.NewReader(data)}, err
	})
	compiler := protocompile.Compiler{Resolver: protocompile.WithStandardImports(find), SourceInfoMode: protocompile.SourceInfoStandard}
	compiled, err := compiler.Compile(ctx, name)
	if err != nil {
		return nil, err
	}
	var files []*descriptorpb.FileDescriptorProto
	seen := map[string]bool{}
	var add func(f protoreflect.FileDescriptor)
	add = func(f protoreflect.FileDescriptor) { // imports before the files that import them
		if seen[f.Path()] {
			return
		}
		seen[f.Path()] = true
		for i := range f.Imports().Len() {
			add(f.Imports().Get(i).FileDescriptor)
		}
		files = append(files, protoutil.ProtoFromFileDescriptor(f))
	}
	add(compiled[0])
	// The descriptors of gogo are other Go types of the same messages.
	parameter := "paths=source_relative"
	request := &plugin.CodeGeneratorRequest{FileToGenerate: []string{name}, Parameter: &parameter}
	for _, f := range files {
		data, err := proto.MarshalOptions{Deterministic: true}.Marshal(f)
		if err != nil {
			return nil, err
		}
		part := &plugin.CodeGeneratorRequest{}
		// A request with one file: the field proto_file has the number 15.
		if err := gogoproto.Unmarshal(append(append([]byte{15<<3 | 2}, gogoproto.EncodeVarint(uint64(len(data)))...), data...), part); err != nil {
			return nil, err
		}
		request.ProtoFile = append(request.ProtoFile, part.ProtoFile...)
	}
	return request, nil
}

// gogoDescriptor returns the descriptor of the options of gogo that is linked into this program.
func gogoDescriptor() (*descriptorpb.FileDescriptorProto, error) {
	unzip, err := gzip.NewReader(bytes.NewReader(gogoproto.FileDescriptor("gogo.proto")))
	if err != nil {
		return nil, fmt.Errorf("the options of gogo: %w", err)
	}
	data, err := io.ReadAll(unzip)
	if err != nil {
		return nil, fmt.Errorf("the options of gogo: %w", err)
	}
	f := &descriptorpb.FileDescriptorProto{}
	if err := proto.Unmarshal(data, f); err != nil {
		return nil, fmt.Errorf("the options of gogo: %w", err)
	}
	f.Name = proto.String(gogoOptions)
	for i, name := range f.Dependency {
		if name == "descriptor.proto" {
			f.Dependency[i] = "google/protobuf/descriptor.proto"
		}
	}
	return f, nil
}
