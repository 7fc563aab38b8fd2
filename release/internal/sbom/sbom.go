// Package sbom lists what a Go program was built from, as a software bill of materials in the JSON
// form of SPDX 2.3 (https://spdx.github.io/spdx-spec/v2.3/). Its source is the build information in
// the binary itself (debug/buildinfo): the modules that are linked, and no others of go.mod.
package sbom

import (
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"runtime/debug"
	"strings"
	"time"
)

// Subject is the program that a document describes.
type Subject struct {
	Name       string // of the document, such as kapok-v0.1.0-linux-amd64
	File       string // name of the program
	Version    string // v0.1.0: binaries of a work tree do not have it
	SHA256     string // of the program, in hexadecimal digits
	License    string // SPDX expression of the main module
	Repository string // URL
	Commit     string
	Supplier   string // name of the organization
	Time       time.Time
}

// Document is a file of SPDX 2.3.
type Document struct {
	SPDXVersion       string         `json:"spdxVersion"`
	DataLicense       string         `json:"dataLicense"`
	SPDXID            string         `json:"SPDXID"`
	Name              string         `json:"name"`
	DocumentNamespace string         `json:"documentNamespace"`
	CreationInfo      CreationInfo   `json:"creationInfo"`
	Packages          []Package      `json:"packages"`
	Relationships     []Relationship `json:"relationships"`
}

// CreationInfo is the origin of a document.
type CreationInfo struct {
	Created  string   `json:"created"` // RFC 3339, in UTC
	Creators []string `json:"creators"`
}

// Package is a module.
type Package struct {
	SPDXID                string        `json:"SPDXID"`
	Name                  string        `json:"name"`
	VersionInfo           string        `json:"versionInfo"`
	PackageFileName       string        `json:"packageFileName,omitempty"`
	Supplier              string        `json:"supplier,omitempty"`
	DownloadLocation      string        `json:"downloadLocation"`
	FilesAnalyzed         bool          `json:"filesAnalyzed"`
	Checksums             []Checksum    `json:"checksums,omitempty"`
	LicenseConcluded      string        `json:"licenseConcluded"`
	LicenseDeclared       string        `json:"licenseDeclared"`
	CopyrightText         string        `json:"copyrightText"`
	ExternalRefs          []ExternalRef `json:"externalRefs"`
	PrimaryPackagePurpose string        `json:"primaryPackagePurpose"`
}

// Checksum is a digest of a package.
type Checksum struct {
	Algorithm string `json:"algorithm"`
	Value     string `json:"checksumValue"`
}

// ExternalRef names a package in another system.
type ExternalRef struct {
	Category string `json:"referenceCategory"`
	Type     string `json:"referenceType"`
	Locator  string `json:"referenceLocator"`
}

// Relationship connects two elements of a document.
type Relationship struct {
	Element string `json:"spdxElementId"`
	Type    string `json:"relationshipType"`
	Related string `json:"relatedSpdxElement"`
}

const (
	documentID  = "SPDXRef-DOCUMENT"
	mainID      = "SPDXRef-Main"
	noAssertion = "NOASSERTION"
)

// Read returns the document of a program.
func Read(path string, of Subject) (Document, error) {
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return Document{}, fmt.Errorf("read the build information of %s: %w", path, err)
	}
	return describe(info, of)
}

// JSON returns a document as the content of a file.
func (d Document) JSON() ([]byte, error) {
	data, err := json.MarshalIndent(d, "", "  ")
	return append(data, '\n'), err
}

func describe(info *buildinfo.BuildInfo, of Subject) (Document, error) {
	d := Document{
		SPDXVersion: "SPDX-2.3", DataLicense: "CC0-1.0", SPDXID: documentID, Name: of.Name,
		// The namespace must be unique for each document: the checksum is that of the program.
		DocumentNamespace: of.Repository + "/spdx/" + of.Name + "-" + of.SHA256,
		CreationInfo: CreationInfo{
			Created:  of.Time.UTC().Format(time.RFC3339),
			Creators: []string{"Organization: " + of.Supplier, "Tool: kapok-release-" + of.Version},
		},
		Packages:      []Package{program(info, of)},
		Relationships: []Relationship{{documentID, "DESCRIBES", mainID}},
	}
	for _, dep := range append([]*debug.Module{standard(info)}, info.Deps...) {
		if dep.Replace != nil {
			dep = dep.Replace
		}
		p, err := module(dep)
		if err != nil {
			return Document{}, err
		}
		d.Packages = append(d.Packages, p)
		d.Relationships = append(d.Relationships, Relationship{mainID, "DEPENDS_ON", p.SPDXID})
	}
	return d, nil
}

// program is the package of the program itself.
func program(info *buildinfo.BuildInfo, of Subject) Package {
	return Package{
		SPDXID: mainID, Name: info.Path, VersionInfo: of.Version, PackageFileName: of.File,
		Supplier:         "Organization: " + of.Supplier,
		DownloadLocation: "git+" + of.Repository + "@" + of.Commit,
		Checksums:        []Checksum{{"SHA256", of.SHA256}},
		LicenseConcluded: of.License, LicenseDeclared: of.License, CopyrightText: noAssertion,
		ExternalRefs:          []ExternalRef{reference(info.Main.Path, of.Version)},
		PrimaryPackagePurpose: "APPLICATION",
	}
}

// standard is the standard library as a module, by the name that scanners know.
func standard(info *buildinfo.BuildInfo) *debug.Module {
	version, _, _ := strings.Cut(strings.TrimPrefix(info.GoVersion, "go"), " ")
	return &debug.Module{Path: "stdlib", Version: version}
}

func module(m *debug.Module) (Package, error) {
	p := Package{
		SPDXID: "SPDXRef-Module-" + identifier(m.Path), Name: m.Path, VersionInfo: m.Version,
		DownloadLocation: noAssertion, LicenseConcluded: noAssertion, LicenseDeclared: noAssertion, CopyrightText: noAssertion,
		ExternalRefs:          []ExternalRef{reference(m.Path, m.Version)},
		PrimaryPackagePurpose: "LIBRARY",
	}
	if m.Sum == "" {
		return p, nil
	}
	// A sum of go.sum is a SHA-256 of the names and digests of the module's files. Scanners that
	// read Go binaries give it as the SHA256 of the package, and so does this one.
	sum, ok := strings.CutPrefix(m.Sum, "h1:")
	raw, err := base64.StdEncoding.DecodeString(sum)
	if !ok || err != nil {
		return Package{}, fmt.Errorf("module %s has the unknown checksum %q", m.Path, m.Sum)
	}
	p.Checksums = []Checksum{{"SHA256", hex.EncodeToString(raw)}}
	return p, nil
}

// reference is the package URL of a module (https://github.com/package-url/purl-spec, type golang).
func reference(path, version string) ExternalRef {
	locator := "pkg:golang/" + path
	if version != "" {
		locator += "@" + strings.ReplaceAll(url.PathEscape(version), "+", "%2B")
	}
	return ExternalRef{"PACKAGE-MANAGER", "purl", locator}
}

// identifier makes an identifier of SPDX from a path: letters, digits, dots and dashes. Paths that
// differ get identifiers that differ, as each other character is written by its code.
func identifier(path string) string {
	var b strings.Builder
	for _, c := range []byte(path) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '.':
			b.WriteByte(c)
		case c == '/':
			b.WriteByte('-')
		default:
			fmt.Fprintf(&b, "-%02x-", c)
		}
	}
	return b.String()
}
