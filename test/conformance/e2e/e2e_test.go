//go:build conformance

package e2e

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/onsi/ginkgo/v2"
	conformancedata "k8s.io/kubernetes/test/conformance/testdata"
	"k8s.io/kubernetes/test/e2e"
	"k8s.io/kubernetes/test/e2e/framework"
	"k8s.io/kubernetes/test/e2e/framework/config"
	"k8s.io/kubernetes/test/e2e/framework/testfiles"
	manifests "k8s.io/kubernetes/test/e2e/testing-manifests"
	"k8s.io/kubernetes/test/fixtures"
)

var results = flag.String("results", "", "file to write the results to, a line of JSON for each spec that ran")

func TestMain(m *testing.M) {
	config.CopyFlags(config.Flags, flag.CommandLine)
	framework.RegisterCommonFlags(flag.CommandLine)
	framework.RegisterClusterFlags(flag.CommandLine)
	flag.Parse()
	testfiles.AddFileSource(manifests.GetE2ETestingManifestsFS())
	testfiles.AddFileSource(fixtures.GetTestFixturesFS())
	testfiles.AddFileSource(conformancedata.GetConformanceTestdataFS())
	framework.AfterReadingAllFlags(&framework.TestContext)
	os.Exit(m.Run())
}

func TestE2E(t *testing.T) { e2e.RunE2ETests(t) }

// Ginkgo's own reports have an entry for each of the thousands of specs that did not run.
var _ = ginkgo.ReportAfterSuite("results", func(report ginkgo.Report) {
	if *results == "" {
		return
	}
	file, err := os.Create(*results)
	framework.ExpectNoError(err)
	lines := json.NewEncoder(file)
	for _, spec := range report.SpecReports {
		if spec.LeafNodeText == "" || spec.StartTime.IsZero() {
			continue
		}
		message := spec.Failure.Message
		if f := spec.Failure.FailureNodeLocation; message != "" {
			message = fmt.Sprintf("%s (%s)", message, f)
		}
		framework.ExpectNoError(lines.Encode(map[string]string{
			"name": spec.FullText(), "state": spec.State.String(), "message": message,
		}))
	}
	framework.ExpectNoError(file.Close())
})
