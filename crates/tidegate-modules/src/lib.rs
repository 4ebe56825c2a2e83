//! One file for each nginx-style module.
