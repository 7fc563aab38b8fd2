package batch

import (
	"fmt"
	"strings"
	"time"
	_ "time/tzdata"

	"github.com/kapok-dev/kapok/internal/kinds/apps"
	"github.com/kapok-dev/kapok/internal/kinds/rule"

	"github.com/robfig/cron/v3"
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

// maxCronJobName leaves room for the timestamp in the names of jobs.
const maxCronJobName = 52

func validateCronJob(c, old *batchv1.CronJob) field.ErrorList {
	spec, path := &c.Spec, field.NewPath("spec")
	was := new(batchv1.CronJobSpec)
	if old != nil {
		was = &old.Spec
	}
	var all field.ErrorList
	if spec.Schedule != "" {
		all = append(all, validateSchedule(spec, was, path.Child("schedule"))...)
	}
	all = append(all, apps.ValidateCount(spec.StartingDeadlineSeconds, path.Child("startingDeadlineSeconds"))...)
	if zone := spec.TimeZone; zone != nil && !ptr.Equal(zone, was.TimeZone) {
		all = append(all, validateTimeZone(*zone, path.Child("timeZone"))...)
	}
	all = append(all, rule.OneOf(path.Child("concurrencyPolicy"), spec.ConcurrencyPolicy,
		batchv1.AllowConcurrent, batchv1.ForbidConcurrent, batchv1.ReplaceConcurrent)...)
	all = append(all, validateJobTemplate(&spec.JobTemplate.Spec, path.Child("jobTemplate", "spec"))...)
	all = append(all, apps.ValidateCount(spec.SuccessfulJobsHistoryLimit, path.Child("successfulJobsHistoryLimit"))...)
	all = append(all, apps.ValidateCount(spec.FailedJobsHistoryLimit, path.Child("failedJobsHistoryLimit"))...)
	if old == nil && len(c.Name) > maxCronJobName {
		all = append(all, field.Invalid(field.NewPath("metadata", "name"), c.Name, fmt.Sprintf("must be no more than %d characters", maxCronJobName)))
	}
	if spec.Schedule == "" { // a declarative rule of Kubernetes, which come last
		all = append(all, field.Required(path.Child("schedule"), ""))
	}
	return all
}

// validateSchedule returns the errors of a schedule. A time zone within the schedule is tolerated
// in old objects, from before there was a field for it.
func validateSchedule(spec, was *batchv1.CronJobSpec, path *field.Path) field.ErrorList {
	var all field.ErrorList
	if err := parseSchedule(spec.Schedule); err != nil {
		all = append(all, field.Invalid(path, spec.Schedule, err.Error()))
	}
	switch has, had := strings.Contains(spec.Schedule, "TZ"), strings.Contains(was.Schedule, "TZ"); {
	case has && !had:
		all = append(all, field.Invalid(path, spec.Schedule, "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"))
	case has && spec.TimeZone != nil:
		all = append(all, field.Invalid(path, spec.Schedule, "cannot use both timeZone field and TZ or CRON_TZ in schedule"))
	}
	return all
}

// parseSchedule also returns an error where the parser panics, as for "TZ=0".
func parseSchedule(schedule string) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("invalid schedule format: %v", r)
		}
	}()
	_, err = cron.ParseStandard(schedule)
	return err
}

// zonePart is the pattern of a segment in the name of a time zone.
var zonePart = rule.Pattern(`^[A-Za-z._0-9+][A-Za-z.\-_0-9+]{0,13}$`)

func validateTimeZone(zone string, path *field.Path) field.ErrorList {
	if zone == "" {
		return field.ErrorList{field.Invalid(path, zone, "timeZone must be nil or non-empty string")}
	}
	for part := range strings.SplitSeq(zone, "/") {
		if part == "." || part == ".." || !zonePart().MatchString(part) {
			return field.ErrorList{field.Invalid(path, zone, "unknown time zone "+zone)}
		}
	}
	var all field.ErrorList
	if strings.EqualFold(zone, "Local") {
		all = append(all, field.Invalid(path, zone, "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"))
	}
	if _, err := time.LoadLocation(zone); err != nil {
		all = append(all, field.Invalid(path, zone, err.Error()))
	}
	return all
}

// validateJobTemplate returns the errors of a job template, which must not have a manual selector.
func validateJobTemplate(spec *batchv1.JobSpec, path *field.Path) field.ErrorList {
	all := validateJobSpec(spec, path)
	if spec.Selector != nil {
		all = append(all, field.Invalid(path.Child("selector"), spec.Selector, "`selector` will be auto-generated"))
	}
	if rule.IsTrue(spec.ManualSelector) {
		all = append(all, field.NotSupported(path.Child("manualSelector"), *spec.ManualSelector, []string{"nil", "false"}))
	}
	return all
}

// validateCronJobStatus accepts every status.
func validateCronJobStatus(_, _ *batchv1.CronJob) field.ErrorList { return nil }
