"""Roles of the processes of measured chains, each `module:class`."""

ROLES = {
    "publisher": "thinwire_lab.live.load_roles_roles:PublisherRole",
    "subscriber": "thinwire_lab.live.load_roles_roles:SubscriberRole",
    "class subscriber": "thinwire_lab.live.load_roles:ClassSubscriberRole",
    "ordered subscriber": "thinwire_lab.live.dictionary_switch:OrderedSubscriberRole",
    "steady": "thinwire_lab.live.failover_roles:SteadyRole",
    "witness": "thinwire_lab.live.failover_roles:WitnessRole",
    "sweeping": "thinwire_lab.live.many_sources_class_sweep:SweepingRole",
    "swept": "thinwire_lab.live.many_sources_class_sweep:SweptRole",
    "walking": "thinwire_lab.live.tolerance_groups_conformance_walk:WalkingRole",
    "walked": "thinwire_lab.live.tolerance_groups_conformance_walk:WalkedRole",
    "registry": "thinwire_lab.live.service_roles_services:RegistryRole",
    "translator": "thinwire_lab.live.service_roles_services:TranslatorRole",
    "dictionaries": "thinwire_lab.live.service_roles_services:DictionariesRole",
    "switching": "thinwire_lab.live.dictionary_switch:SwitchingRole",
    "telling translator": "thinwire_lab.live.service_roles_class_translators:TellingTranslatorRole",
    "edge host": "thinwire_lab.live.edge.edge_load_roles:EdgeHostRole",
    "numbering": "thinwire_lab.live.kill_test_chaos_roles:NumberingRole",
    "recording": "thinwire_lab.live.kill_test_chaos_roles:RecordingRole",
}
