package telemetry

import (
	"runtime"
	"runtime/debug"
)

// Build describes the running binary.
type Build struct {
	Version   string `json:"version"`
	GitCommit string `json:"git_commit"`
	BuildTime string `json:"build_time"`
	GoVersion string `json:"go_version"`
}

// BuildInfo fills what the linker did not set from the binary's own build
// information; unknown fields are "unknown".
func BuildInfo(version, commit, buildTime string) Build {
	b := Build{Version: version, GitCommit: commit, BuildTime: buildTime, GoVersion: runtime.Version()}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				b.GitCommit = firstOf(b.GitCommit, s.Value)
			case "vcs.time":
				b.BuildTime = firstOf(b.BuildTime, s.Value)
			}
		}
	}
	b.Version = firstOf(b.Version, "dev")
	b.GitCommit = firstOf(b.GitCommit, "unknown")
	b.BuildTime = firstOf(b.BuildTime, "unknown")
	return b
}

func firstOf(a, b string) string {
	if a != "" {
		return a
	}
	return b
}
