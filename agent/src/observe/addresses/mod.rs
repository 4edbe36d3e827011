//! Local addresses, links and default routes, over rtnetlink.
