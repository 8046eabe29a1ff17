package main

import (
	"bytes"
	"fmt"
	"os"
	"regexp"

	"gopkg.in/yaml.v3"
)

// floors is what .testcoverage.yml says.
type floors struct {
	// Threshold holds percentages, 0 to 100.
	Threshold struct {
		Package float64 `yaml:"package"`
		Total   float64 `yaml:"total"`
	} `yaml:"threshold"`
	Exclude struct {
		// Paths are regular expressions over a file's import path and name.
		Paths []string `yaml:"paths"`
	} `yaml:"exclude"`

	patterns []*regexp.Regexp
}

func readFloors(name string) (*floors, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	decoder.KnownFields(true)
	var f floors
	if err := decoder.Decode(&f); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	for _, percent := range []float64{f.Threshold.Package, f.Threshold.Total} {
		if percent <= 0 || percent > 100 {
			return nil, fmt.Errorf("%s: threshold %v: want a percentage above 0 for both package and total", name, percent)
		}
	}
	for _, p := range f.Exclude.Paths {
		compiled, err := regexp.Compile(p)
		if err != nil {
			return nil, fmt.Errorf("%s: exclude path: %w", name, err)
		}
		f.patterns = append(f.patterns, compiled)
	}
	return &f, nil
}

func (f *floors) excluded(file string) bool {
	for _, p := range f.patterns {
		if p.MatchString(file) {
			return true
		}
	}
	return false
}
