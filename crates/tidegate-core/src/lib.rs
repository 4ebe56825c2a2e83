//! The phase engine: servers, locations, variables, requests, filters, modules.
