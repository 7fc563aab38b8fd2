package main

import (
	"context"
	"debug/buildinfo"
	"encoding/json"
)

// statement is an in-toto statement (https://in-toto.io/Statement/v1).
type statement struct {
	Type          string     `json:"_type"`
	Subject       []resource `json:"subject"`
	PredicateType string     `json:"predicateType"`
	Predicate     predicate  `json:"predicate"`
}

// resource is a file or a commit, with its digests by algorithm.
type resource struct {
	Name   string            `json:"name,omitempty"`
	URI    string            `json:"uri,omitempty"`
	Digest map[string]string `json:"digest,omitempty"`
}

// predicate is the provenance of SLSA (https://slsa.dev/provenance/v1). It has no times: two runs
// would differ by them.
type predicate struct {
	BuildDefinition buildDefinition `json:"buildDefinition"`
	RunDetails      runDetails      `json:"runDetails"`
}

type buildDefinition struct {
	BuildType            string             `json:"buildType"`
	ExternalParameters   externalParameters `json:"externalParameters"`
	InternalParameters   internalParameters `json:"internalParameters"`
	ResolvedDependencies []resource         `json:"resolvedDependencies"`
}

// externalParameters holds the settings of the command line.
type externalParameters struct {
	Version string   `json:"version"`
	BaseURL string   `json:"baseURL"`
	Targets []string `json:"targets"`
}

// internalParameters holds all other inputs of the build.
type internalParameters struct {
	Go              string   `json:"go"`
	Command         []string `json:"command"`
	Environment     []string `json:"environment"`
	SourceDateEpoch int64    `json:"sourceDateEpoch"`
	Modified        bool     `json:"modified"` // the work tree differed from the commit: a snapshot
}

type runDetails struct {
	Builder builder `json:"builder"`
}

type builder struct {
	ID string `json:"id"`
}

// writeProvenance writes from which commit and how the files were made. It is not signed: it is a
// claim of the machine that ran this program, which a second run checks.
func (r *release) writeProvenance(context.Context) error {
	names, err := r.released()
	if err != nil {
		return err
	}
	built, err := buildinfo.ReadFile(r.binaries[0].path)
	if err != nil {
		return err
	}
	s := statement{
		Type: "https://in-toto.io/Statement/v1", PredicateType: "https://slsa.dev/provenance/v1", Predicate: r.predicate(built.GoVersion),
	}
	for _, name := range names {
		sum, err := r.sha256(name)
		if err != nil {
			return err
		}
		s.Subject = append(s.Subject, resource{Name: name, Digest: map[string]string{"sha256": sum}})
	}
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	return r.write("kapok-"+r.version+".intoto.json", 0o644, append(data, '\n'))
}

// predicate describes the builds, which the named version of Go has made.
func (r *release) predicate(goVersion string) predicate {
	var targets []string
	for _, t := range r.targets {
		targets = append(targets, t.String())
	}
	environment := buildEnvironment(target{"$OS", "$ARCH"})
	return predicate{
		BuildDefinition: buildDefinition{
			BuildType:          repository + "/blob/main/docs/releasing.md",
			ExternalParameters: externalParameters{r.version, r.baseURL, targets},
			InternalParameters: internalParameters{
				Go: goVersion, Command: append(append([]string{"go"}, r.buildArguments()...), r.pkg),
				Environment: environment, SourceDateEpoch: r.time.Unix(), Modified: r.modified,
			},
			ResolvedDependencies: []resource{{URI: "git+" + repository + "@" + r.commit, Digest: map[string]string{"gitCommit": r.commit}}},
		},
		RunDetails: runDetails{builder{repository + "/tree/main/release"}},
	}
}
